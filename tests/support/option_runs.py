"""Words of commands for the options that few runs use, over sample data; see the recorded outputs.

`broker.properties`, `orders.avsc`, `named.log`, and `sent` are written beside the sample data. What
a run writes into `written` is part of its output.
"""

import random
from collections.abc import Iterator
from pathlib import Path

SAMPLES = Path(__file__).parents[2] / "sample-data"
_LOG = "clean/4.1.1/d1/orders.zstd-0/00000000000000000000.log"
_NODES = " ".join(f"damaged/4.4.0-three-nodes/n{number}" for number in (1, 2, 3))
#: Words, and the samples that are asked: at their end, or where DIR stands.
_OF_DIRECTORIES = (
    ("verify --fail-on never --csv-safe --format csv", "damaged/4.1.1-killed damaged/0.10.2.2"),
    ("verify --fail-on note --all --format table", "clean/4.1.1 damaged/0.8.2.2"),
    ("verify --broker-version 2.8 --append named.log --follower", "clean/4.1.1/d1/orders.zstd-0"),
    ("verify -q --decompress-limit 64 --deep", "clean/4.1.1/d1 clean/0.8.2.2"),
    ("verify --server-properties broker.properties --rows summary", "clean/4.1.1/d1"),
    ("verify --no-topic-configs --topic-config retention.ms=1 --format table", "clean/4.4.0"),
    ("predict --all --notes --config segment.bytes=4096", "damaged/4.1.1-killed"),
    ("predict --recovery-rate 1MiB --recovery-threads 2 --format table", "damaged/4.1.1-killed"),
    ("predict --nagios --no-topic-configs --topic orders.*", "damaged/4.1.1-stopped clean/4.1.1"),
    ("predict --max-duration 0s --format table", "clean/2.8.2"),
    ("dump --tail 3 --bytes hex --format table", "clean/4.1.1/d1 clean/0.7.2"),
    ("dump --tail 2 --bytes base64 --csv-safe --format csv", "clean/4.4.0-transactions"),
    ("dump --to-time 1700040100000 --utc-offset +05:30 --format table --limit 20", "clean/4.1.1"),
    ("dump --decompress-limit 100 --limit 30 --fail-on never", "clean/4.1.1/d1 clean/0.10.2.2"),
    ("dump --show-secrets --limit 60 --format table", "clean/4.1.1/d1/__cluster_metadata-0"),
    ("dump --topic *.lz4 --partition 0 --limit 5 -v", "clean/4.1.1"),
    ("dump --schemas orders.zstd=orders.avsc --limit 4", "clean/4.1.1/d1/orders.zstd-0"),
    ("dump --rows batch --batches --limit 5", "clean/4.4.0/d1"),
    (
        "find-offset --as-is --topic orders.* --utc-offset -03:00 --format table DIR 40",
        "clean/4.1.1",
    ),
    ("find-offset --max-bytes 2000 --max-offset 400 DIR 380", "clean/4.1.1 clean/0.7.2"),
    ("find-offset --message-format 0.9 --no-topic-configs DIR 9", "clean/0.10.2.2"),
    (
        "find-time --none skip --isolation read_committed DIR 1795350112000",
        "clean/4.4.0-transactions",
    ),
    ("find-time --as-is --message-format 0.9 DIR 1490000000000", "clean/0.10.2.2"),
    (
        "find-time --none latest --partition 0 --csv-safe --format csv DIR 2030-01-01T00:00Z",
        "clean/2.8.2",
    ),
    ("sequences --topic * --fail-on note --utc-offset +01:00 --format table", "clean/4.4.0"),
    ("duplicates --visible --isolation read_committed --by key", "clean/4.4.0-transactions"),
    ("duplicates --by header:trace,value --bytes hex", "clean/4.1.1/d1"),
    ("usage --deep --bytes hex --by key --top 2", "clean/4.1.1/d1 clean/0.10.2.2"),
    ("usage --by hour --decompress-limit 64 --format table", "clean/0.8.2.2"),
    ("placement --partitioner crc32 --top 1 --format table", "clean/0.10.2.2 clean/4.1.1"),
    ("why --now 2027-01-01T00:00Z --no-topic-configs --format table", "clean/4.1.1 clean/4.4.0"),
    ("why --free 64KiB --partition 0 --topic *.compact -v", "clean/4.1.1"),
    ("why --server-properties broker.properties --cleaner", "clean/2.8.2"),
    ("reindex --max-index-bytes 64 --all --rows reindex", "clean/4.1.1/d1 clean/0.10.2.2"),
    ("reindex --config index.interval.bytes=100 --no-topic-configs --all", "damaged/4.1.1-killed"),
    ("salvage --from-offset 300 --to-offset 320", "clean/4.1.1/d1/orders.zstd-0 damaged/one-bit"),
    ("salvage --broker-version 0.9 --no-topic-configs --format table", "damaged/0.10.2.2"),
    ("salvage --topic-id AAAAAAAAAAAAAAAAAAAAAQ --fail-on never", "damaged/one-bit"),
    ("salvage --decompress-limit 64 --utc-offset +02:00", "damaged/4.1.1-killed"),
    ("groups --group work* --explain --history --format table", "clean/4.4.0"),
    ("groups --from 2026-11-22T12:21:30Z --to 2026-11-22T12:21:50Z --history", "clean/4.4.0"),
    ("groups --broker-version 2.0 --fail-on note --format table", "clean/4.4.0"),
    ("groups --at 2026-11-22T12:21:50Z --broker-version 1.0", "clean/4.4.0"),
    ("transactions --id * --csv-safe --format csv", "clean/4.4.0-transactions"),
    ("cluster --broker 1 --format table", "clean/4.1.1/d1 damaged/4.4.0-three-nodes/n1"),
    ("cluster --show-secrets --what users,configs --csv-safe --format csv", "clean/4.1.1/d1"),
    ("cluster --diff 100 300 --format table", "clean/4.1.1/d1 damaged/4.4.0-three-nodes/n2"),
    ("cluster --topic orders.* --partition 0", "clean/4.1.1/d1"),
    ("info --partitions --format table --utc-offset -08:00", "clean/4.1.1 damaged/0.10.2.2"),
    ("info --explain --partition 0 --fail-on note", "damaged/4.1.1-stopped clean/4.4.0"),
    ("timeline --to 2026-11-24T00:00Z --csv-safe --format csv", "clean/4.4.0"),
    ("timeline --skew none --clock 1 --format table", "damaged/4.4.0-three-nodes/n1 clean/4.1.1"),
    ("timeline --key k353 --grep k8[0-9] --topic orders.zstd", "clean/4.1.1"),
    ("timeline --group * --what commit,rebalance --format table", "clean/4.4.0"),
    ("sql --bytes hex 'select key, value from records limit 4'", "clean/4.1.1/d1/orders.zstd-0"),
)
_TIER = "damaged/4.1.1-tiered/remote/kafka-tiered-storage"
_OTHERS = (
    "dump --as log --base-offset 0 --topic-name renamed --partition-number 7 --limit 3 named.log",
    "verify --as log --base-offset 0 --topic-name renamed --partition-number 7 named.log",
    "find-offset --base-offset 0 --topic-name renamed --partition-number 7 named.log 40",
    f"find-offset --max-bytes 300 {_LOG} 20",
    "verify --format table --explain --append named.log clean/4.1.1/d1/orders.lz4-0",
    f"timeline --around 2026-11-22T12:21:30Z --within 1h --format table {_NODES}",
    f"timeline --skew 2=250 --clock 3 --what leader {_NODES}",
    f"report --now 2026-11-28T00:00Z --no-hashes --deep --to 2026-11-23T00:00Z {_NODES}",
    f"elect --broker-version 3.9 --topic t1* --format table {_NODES}",
    f"elect --fail-on never --csv-safe --format csv {_NODES}",
    "compare -n 1 --format table clean/4.1.1/d1/orders.zstd-0 damaged/one-bit/orders.zstd-0",
    "compare --mirror --ignore-times --format table clean/4.1.1/d1 damaged/one-bit",
    "compare --groups --group t* --mirror --format table damaged/one-bit clean/4.1.1/d1",
    "carve --from-offset 100 --to-offset 140 --broker-version 2.8 --format table image",
    "carve --prefer longest --partition 0 --decompress-limit 256 image",
    "carve --topic orders* --fail-on never --format csv image clean/4.1.1/d1/orders.zstd-0",
    "schema batch finding --format csv",
    "duplicates --within '1000 records' --format table clean/4.1.1/d1",
    "duplicates --within soon clean/4.1.1/d1",
    "duplicates --by colour clean/4.1.1/d1",
    "groups --explain --backwards --history clean/4.4.0",
    "verify --nagios --format table clean/2.8.2",
    "report --from 2026-11-24T00:00Z --to 2026-11-23T00:00Z clean/2.8.2",
    "placement --top 1 --partitions 3 --format table clean/4.1.1",
    "dump --batches --format table clean/4.4.0-transactions",
    "carve --propose-map proposed.csv disk",
    "carve --out carved disk",
    "salvage --out rebuilt damaged/0.10.2.2",
    "salvage --mend-headers --out mended damaged/4.1.1-killed",
    "salvage --format table --out merged clean/4.4.0-transactions damaged/4.1.1-stopped",
    f"salvage --tier {_TIER} --out from-tier damaged/4.1.1-tiered/d1",
    "find-offset --format table damaged/4.1.1-tiered/d1 100",
    "find-offset --max-bytes 300 --format table damaged/4.1.1-tiered/d1 100",
    (
        "find-offset --max-bytes 300 --isolation read_committed --format table"
        " clean/4.4.0-transactions 0"
    ),
    f"find-time --format markdown --tier {_TIER} damaged/4.1.1-tiered/d1 1790000041900",
    "verify --append named.log --format markdown clean/4.1.1/d1/orders.zstd-0",
    "dump --format kafka --decompress-limit 100 clean/0.10.2.2",
    "dump --entries --format kafka damaged/0.10.2.2",
    f"why --free 64KiB --tier {_TIER} --format table damaged/4.1.1-tiered/d1",
    "why --config retention.bytes=1000 --format table clean/4.1.1",
    "compare --format table clean/0.7.2 damaged/0.7.2",
    "dump --hex --limit 2 --format markdown clean/4.1.1/d1/orders.lz4-0",
)
#: Rows of what other runs print as a table, and tables of what they print as rows.
_OTHER_FORMS = (
    "timeline clean/4.4.0-transactions",
    "timeline damaged/4.1.1-tiered/d1",
    "dump --visible --batches damaged/4.1.1-tiered/d1",
    "dump --entries damaged/4.1.1-killed",
    "dump --entries clean/4.4.0-transactions",
    "duplicates --by key,value clean/4.1.1/d1",
    "usage --by key --top 5 clean/4.1.1/d1",
    "placement --partitioner any clean/0.10.2.2",
    "groups --history clean/4.4.0",
    "cluster --history --format csv clean/4.1.1/d1",
    "cluster --view zookeeper clean/4.1.1/d1",
    "cluster --diff 100 300 clean/4.1.1/d1",
    f"elect {_NODES}",
    f"compare {_NODES}",
    "compare --mirror damaged/one-bit clean/4.1.1/d1/orders.zstd-0",
    "info --partitions damaged/4.4.0-three-nodes/n1",
    "why --rolls --cleaner damaged/4.1.1-tiered/d1",
    "why --free 64KiB --format table damaged/4.1.1-tiered/d1",
    "why --free 1KiB clean/4.1.1/d1",
    "find-offset --explain damaged/4.1.1-tiered/d1 10",
    "find-time --explain damaged/4.1.1-tiered/d1 1790000041900",
    "find-offset --explain --max-bytes 300 --format table damaged/4.1.1-tiered/d1 10",
    "find-offset --explain --max-bytes 300 damaged/4.1.1-tiered/d1 600",
    "predict damaged/4.1.1-tiered/d1",
    "predict --format table damaged/4.4.0-three-nodes/n2",
    "predict --format table clean/0.8.2.2",
    "transactions clean/4.4.0-transactions",
    "dump --hex --format table damaged/one-bit",
    "dump clients.pcap.gz",
    "dump --format table clients.pcap.gz",
    "verify --format table clients.pcap.gz",
    "sequences --explained clients.pcap.gz",
    "verify --append clients.pcap.gz clean/4.1.1/d1/orders.zstd-0",
    "why --textfile written clean/4.1.1/d1",
    f"verify --textfile written {_NODES}",
    "dump --format markdown --limit 5 clean/4.1.1/d1",
    "dump --batches --format markdown --limit 5 clean/4.1.1/d1",
    "usage --by key --top 2 --format table clean/4.1.1/d1",
    "usage --by producer,partition --top 2 --format table clean/4.4.0",
    f"cluster --format table {_NODES}",
    f"cluster --topic t1* --history --format table {_NODES}",
    "cluster --format table clean/4.1.1/d1/bootstrap.checkpoint",
    "compare --format csv clean/4.1.1/d1 damaged/one-bit",
    "timeline --format markdown damaged/4.1.1-tiered/d1",
    "transactions --format markdown clean/4.4.0-transactions",
    "groups --history --format markdown clean/4.4.0",
    "elect --format markdown --rows replica-election damaged/4.1.1-stopped/d1 clean/4.1.1/d1",
    "salvage --format markdown damaged/one-bit clean/4.1.1/d1/orders.zstd-0",
    "carve --format markdown image",
    "placement --partitioner any --format markdown clean/4.1.1/d1",
    "duplicates --by value --format markdown clean/4.1.1/d1",
    "sequences --explained --format markdown clean/4.4.0-transactions",
    "info --partitions --format markdown clean/4.1.1/d1",
    "predict --format markdown --rows recovery,node-start damaged/4.1.1-killed",
)
#: What people try first, and the answer names.
_TRIED = (
    *(
        f"{word} clean/4.1.1/d1"
        for word in (
            "ls du cat fsck rebuild restore diff lag txn seek time space postmortem history leader"
            " forecast metadata image replay query rows gaps repeats hash"
        ).split()
    ),
    *(
        f"dump --{word} 1 clean/4.1.1/d1"
        for word in (
            "json csv count head max max-messages last since after start until before end dir path"
            " log-dir timezone verbose"
        ).split()
    ),
    "verify --config 1 clean/4.1.1/d1",
    "timeline --since 1 clean/4.1.1/d1",
    "timeline --until 1 clean/4.1.1/d1",
)
_SENT = (
    *("clean/0.8.2.2/cpt-0", "clean/0.8.2.2/gz-0", "clean/0.8.2.2/nil-0", "clean/0.8.2.2/sn-0"),
    *("clean/0.10.2.2/lz-0", "clean/0.10.2.2/nots-0", "clean/4.1.1/d1/orders.snappy-0"),
    *(
        "damaged/0.8.2.2/d-flipmid-0",
        "damaged/0.8.2.2/d-sizemid-0",
        "damaged/0.10.2.2/d-ztornmsg-0",
    ),
    *("clean/4.4.0-transactions/d2/customers-0", "clean/4.1.1/d1/users.compact-0"),
)
_TO = (
    *("clean/0.8.2.2/plain-0", "clean/0.10.2.2/plain-0", "clean/4.1.1/d1/orders.lz4-0"),
    "clean/4.4.0-transactions/d2/customers-0",
)
_RELEASES = ("0.8.2", "0.9", "0.10.0", "0.10.2", "0.11", "1.0", "2.0", "2.8", "3.6", "4.4")
_CONFIGS = (
    *("cleanup.policy=compact", "message.timestamp.type=LogAppendTime", "compression.type=gzip"),
    *("compression.type=uncompressed", "message.timestamp.difference.max.ms=9"),
    *("message.format.version=0.9", "max.message.bytes=99", "compression.type=snappy"),
)


def _log_of(partition: str) -> Path:
    return min(
        (SAMPLES / partition).glob("*.log"), key=lambda path: (path.stat().st_size, path.name)
    )


def write_first_entries(folder: Path) -> None:
    """Write the first batch of each partition that is sent."""
    folder.mkdir()
    for partition in _SENT:
        data = _log_of(partition).read_bytes()
        (folder / Path(partition).name).write_bytes(data[: 12 + int.from_bytes(data[8:12], "big")])


def _appended() -> Iterator[str]:
    """Yield what brokers of any release are asked to append, by each of the rules of a topic."""
    rng = random.Random(23)
    for number in range(72):
        partition = _SENT[number % len(_SENT)]
        first = f"sent/{Path(partition).name}"
        sent = rng.choice((first, first, _log_of(partition).relative_to(SAMPLES)))
        words = f"verify --append {sent} --broker-version {rng.choice(_RELEASES)}"
        for config in rng.sample(_CONFIGS, rng.choice((0, 1, 1, 2))):
            words += f" --topic-config {config}"
        words += rng.choice(("", "", "", " --follower", " --explain"))
        yield f"{words} {rng.choice(_TO)}"


OPTION_RUNS = (
    *(
        words.replace("DIR", sample) if "DIR" in words else f"{words} {sample}"
        for words, samples in _OF_DIRECTORIES
        for sample in samples.split()
    ),
    *_OTHERS,
    *_OTHER_FORMS,
    *_TRIED,
    *dict.fromkeys(_appended()),
)

#: What hardly another copy with damage reaches: the seed of the damage, and the words.
RARE_DAMAGE = (
    (1000, "report --now 2026-11-28T00:00Z --deep damaged-1000/clean/0.8.2.2"),
    (1003, "why --rolls --cleaner damaged-1003/clean/0.7.2"),
    (1007, "dump --entries --format kafka damaged-1007/damaged/4.1.1-killed"),
    (1020, "compare --mirror --groups clean/4.1.1 damaged-1020/clean/4.1.1"),
    (1037, "dump --entries --format kafka damaged-1037/damaged/4.1.1-stopped"),
    (1044, "cluster damaged-1044/clean/4.4.0-transactions"),
    (
        1046,
        "predict --broker-version 2.8 --format table damaged-1046/damaged/4.4.0-three-nodes/n1",
    ),
    (1080, "why --free 100KiB --format table damaged-1080/damaged/0.10.2.2"),
    (1097, "elect --format table damaged/4.1.1-stopped damaged-1097/damaged/4.1.1-stopped"),
)
