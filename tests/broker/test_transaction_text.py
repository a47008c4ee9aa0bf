"""What is said of an open transaction."""

from each import each

from kdump.broker.producer_state import Producer
from kdump.broker.visibility import transaction_words


@each(
    ("since", "count", "words"),
    [
        (1_700_000_000_000, 1234, " (2023-11-14T22:13:20.000Z), with 1,234 records"),
        (1_700_000_000_000, 0, " (2023-11-14T22:13:20.000Z)"),
        (-1, 1, ", with 1 record"),
        (-1, 0, ""),
    ],
)
def test_transaction_states_have_their_wording(since: int, count: int, words: str) -> None:
    producer = Producer(3)
    producer.since_ms, producer.records_count = since, count
    text = transaction_words(7, producer, 12345)
    assert text == f"Producer 7, epoch 3, has a transaction open since offset 12,345{words}"
