"""The symptoms that playbooks exist for: the commands to type first, and the page.

README, `docs/playbooks/` and the manual page kdump-playbooks are held to this list by a test.
"""

from __future__ import annotations

import re

from kdump.tuples import NamedTuple


class Symptom(NamedTuple):
    """What an operator sees, and where to begin."""

    page: str
    title: str
    words: str
    commands: tuple[str, ...]


SYMPTOMS = (
    Symptom(
        "broker-does-not-start",
        "The broker does not start",
        "broker node start starts starting boot crash startup refuses fails",
        ("kdump predict --server-properties server.properties",),
    ),
    Symptom(
        "disk-full",
        "The disk is full",
        "disk full space retention usage storage no left device enospc",
        ("kdump why /var/lib/kafka", "kdump why --free 20GiB /var/lib/kafka"),
    ),
    Symptom(
        "consumer-stuck",
        "A consumer is stuck, or fails on a corrupt record",
        "consumer stuck corrupt corruption crc record hangs skip poison loop",
        (
            "kdump verify /var/lib/kafka/orders-7",
            "kdump find-offset --explain --check /var/lib/kafka/orders-7 48301220",
        ),
    ),
    Symptom(
        "messages-missing",
        "Messages are missing",
        "messages message missing lost loss records record gone gap vanished",
        (
            "kdump verify /var/lib/kafka/orders-7",
            "kdump sequences --topic orders /var/lib/kafka",
            "kdump placement --topic orders /var/lib/kafka",
        ),
    ),
    Symptom(
        "duplicates",
        "Messages arrive twice",
        "duplicates duplicate twice repeated repeats double again replayed",
        (
            "kdump sequences --topic orders /var/lib/kafka",
            "kdump duplicates --topic orders /var/lib/kafka",
        ),
    ),
    Symptom(
        "topic-deleted",
        "A topic was deleted by mistake",
        "topic deleted delete mistake undelete removed restore recover",
        (
            "kdump salvage --topic orders /var/lib/kafka",
            "kdump produce --bootstrap-server HOST:PORT --topic orders --dry-run /var/lib/kafka",
        ),
    ),
    Symptom(
        "group-jumped-back",
        "A group jumped back, or lost its offsets",
        "group groups consumer jumped back offsets offset lost reset rewound committed lag",
        (
            "kdump groups --group billing --history --backwards /var/lib/kafka",
            "kdump groups --group billing --at yesterday --format reset-csv /var/lib/kafka",
        ),
    ),
    Symptom(
        "hanging-transaction",
        "A transaction is hanging, and read_committed consumers wait",
        "transaction hanging hang open lso read_committed committed wait aborted stable",
        ("kdump transactions --open /var/lib/kafka",),
    ),
    Symptom(
        "replicas-differ",
        "Replicas differ: which one should lead?",
        "replicas replica differ diverged lead leader election unclean isr mismatch",
        (
            "kdump compare /mnt/broker1/kafka /mnt/broker2/kafka",
            "kdump elect /mnt/broker1/kafka /mnt/broker2/kafka",
        ),
    ),
    Symptom(
        "quorum-lost",
        "The controllers lost their quorum",
        "quorum controller controllers kraft lost metadata voters majority",
        (
            "kdump elect --topic __cluster_metadata /mnt/c1/meta /mnt/c2/meta /mnt/c3/meta",
            "kdump predict /mnt/c1/meta",
        ),
    ),
    Symptom(
        "disk-died",
        "The disk died: recover records from an image",
        "disk died dead carve carving image recover unmountable formatted filesystem rescue",
        (
            "kdump carve /rescue/sdb1.img",
            "kdump carve --propose-map map.csv /rescue/sdb1.img",
        ),
    ),
    Symptom(
        "what-happened",
        "What happened at 03:12?",
        "happened when history time incident postmortem changed who",
        (
            "kdump timeline --around 2026-11-22T03:12Z /var/lib/kafka",
            "kdump cluster --diff 2026-11-22T03:00Z 2026-11-22T03:20Z /var/lib/kafka",
            "kdump groups --history --from 2026-11-22T03:00Z /var/lib/kafka",
            "kdump dump --from-time 2026-11-22T03:12Z --limit 20 /var/lib/kafka/orders-7",
        ),
    ),
    Symptom(
        "evidence",
        "Send evidence to a vendor",
        "evidence vendor support share send report redact secrets export",
        ("kdump verify --deep --format jsonl --output verify.jsonl /var/lib/kafka",),
    ),
)


def find_matches(text: str) -> tuple[list[Symptom], tuple[Symptom, ...]]:
    """Return the symptoms that a text describes, the best first, and all symptoms."""
    asked = set(re.findall(r"[a-z_]+", text.lower())) - {"a", "the", "is", "are", "my", "does"}
    scores = {}
    for symptom in SYMPTOMS:
        known = {*symptom.words.split(), *re.findall(r"[a-z_]+", symptom.title.lower())}
        score = sum(any(_same(word, other) for other in known) for word in asked)
        if score:
            scores[symptom] = score
    best = max(scores.values(), default=0)
    return [symptom for symptom, score in scores.items() if score == best], SYMPTOMS


def _same(word: str, other: str) -> bool:
    """Whether two words begin alike, as "corrupt" and "corrupted"."""
    short, long = sorted((word, other), key=len)
    return short == long or (len(short) >= 4 and long.startswith(short))
