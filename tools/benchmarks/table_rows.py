"""The rows of the performance table: each function is one piece of work, and yields its pairs.

A pair names kdump's command, what that is measured against, and the ratio to reach.
"""

import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from generate import START_MS
from table_bench import ENTRY, Bench, Pair
from table_peers import WITHOUT_SHA256


def of_records(bench: Bench) -> Iterator[Pair]:
    """Each record as a line of text."""
    path = bench.case("v2none")
    floor, looped = "loop of Python over the records", bench.peer("values", path)
    for form, most in (("jsonl", 1.0), ("csv", 1.5), ("table", 1.5), ("kafka", 1.0)):
        ours = bench.run("dump", "--format", form, path)
        yield Pair(f"dump --format {form}, 256 MiB", ours, floor, looped, most)
    ours = bench.run("dump", "--key", "000000000001", path)
    yield Pair("dump --key, 256 MiB", ours, floor, looped, 0.5)


def kafka_text(bench: Bench) -> Iterator[Pair]:
    """The broker's dump tool."""
    path, against = bench.case("v2none"), "kafka-dump-log"
    ours = bench.run("dump", "--format", "kafka", path)
    tool = bench.dump_log("--print-data-log", "--files", path)
    yield Pair("dump --format kafka, 256 MiB", ours, against, tool, 1 / 15, counted=False)
    shallow = bench.dump_log("--files", path)
    yield Pair("verify, 256 MiB", bench.run("verify", path), against, shallow, 0.1, counted=False)


def copied(bench: Bench) -> Iterator[Pair]:
    """What reads everything, and writes a copy."""
    path, out = bench.directory("copies"), str(bench.data / "out")
    one = f"{path}/1"
    files = bench.shell('cat "$1"/*/*.log >/dev/null', one)
    yield Pair("verify, 256 MiB", bench.run("verify", one), "cat", files, None, counted=False)
    ours = bench.shell('rm -rf "$2"; kdump salvage --out "$2" "$1"', one, out)
    peer = bench.shell('rm -rf "$2"; cp -r "$1" "$2"', one, out)
    yield Pair("salvage --out, 256 MiB", ours, "cp -r", peer, None, counted=False)


def arrow(bench: Bench) -> Iterator[Pair]:
    """Arrow and Parquet."""
    path, made = bench.case("v2none"), bench.data / "made.arrow"
    bench.peer("arrow")
    if not made.exists():
        argv = bench.run("dump", "--format", "arrow", "--output", str(made), path)
        subprocess.run(argv, env=bench.environment, check=True)
    for form, most in (("arrow", 1.3), ("parquet", 1.15)):
        target = str(bench.data / f"out.{form}")
        ours = bench.shell(
            'rm -f "$2"; kdump dump --format "$3" --output "$2" "$1"', path, target, form
        )
        peer = bench.peer(form, str(made), target)
        yield Pair(f"dump --format {form}", ours, "bare pyarrow writer", peer, most)


def search(bench: Bench) -> Iterator[Pair]:
    """Filters by content."""
    path = bench.case("v2none")
    for what, pattern, grep, most in (
        ("literal", "priority region", "-cF", 0.5),
        ("regex", "prior[a-z]+ reg", "-cE", 1.0),
    ):
        ours = bench.run("dump", "--grep", pattern, path)
        peer = bench.shell('kdump dump "$1" | grep "$2" "$3"', path, grep, pattern)
        yield Pair(f"dump --grep, {what}", ours, "dump \\| grep", peer, most)


def narrow(bench: Bench) -> Iterator[Pair]:
    """Filters that leave little."""
    path = f"{bench.directory('large')}/large-0"
    end_ms = START_MS + max(int(log.stem) for log in Path(path).glob("*.log"))
    ours = bench.run("dump", "--from-time", str(end_ms - 100), "--to-time", str(end_ms), path)
    click = bench.python("import click")
    yield Pair("dump --from-time, the end of 1 GiB", ours, "import click", click, 1.6)


def gzip(bench: Bench) -> Iterator[Pair]:
    """Compressed by gzip: batches, and wrappers of old messages."""
    for what, path, most in (
        ("gzip, v2", bench.case("v2gzip"), 0.5),
        ("gzip, v1 wrappers", f"{bench.directory('wrappers')}/wrappers-0", 0.8),
    ):
        log = path if path.endswith(".log") else f"{path}/{0:020d}.log"
        peer = bench.peer("aiokafka", log)
        yield Pair(what, bench.run("dump", "--format", "jsonl", path), "aiokafka", peer, most)


def codecs(bench: Bench) -> Iterator[Pair]:
    """Each codec, in 64 MiB of plain bytes and in sixteen times as much."""
    for codec in ("none", "lz4", "gzip", "snappy", "zstd"):
        path = bench.case(f"v2{codec}")
        ours = bench.run("dump", "--format", "jsonl", path)
        work = "no codec" if codec == "none" else codec
        yield Pair(work, ours, "Rust crate", bench.rust(path), 1.2)
        if codec != "none":
            path = f"{bench.directory('codecs')}/{codec}-0/{0:020d}.log"
            ours = bench.run("dump", "--format", "jsonl", path)
            yield Pair(f"{codec}, 1 GiB", ours, "Rust crate", bench.rust(path), 1.2)


def markers(bench: Bench) -> Iterator[Pair]:
    """Transaction markers."""
    ours = bench.run("dump", "--format", "jsonl", f"{bench.directory('markers')}/with-0")
    peer = bench.run("dump", "--format", "jsonl", f"{bench.directory('markers')}/without-0")
    yield Pair("100,000 transaction markers", ours, "the same log without", peer, 1.3)


def pre08(bench: Bench) -> Iterator[Pair]:
    """Files of 0.7."""
    ours = bench.run("dump", "--format", "jsonl", f"{bench.directory('pre08')}/old-0")
    peer = bench.run("dump", "--format", "jsonl", f"{bench.directory('pre08')}/v1-0")
    yield Pair("0.7 files, 64 MiB", ours, "v1 of the same bytes", peer, 3)


def small(bench: Bench) -> Iterator[Pair]:
    """Many small partitions."""
    path = bench.directory("small")
    reads = bench.peer("files", path)
    ours = bench.run("verify", path)
    yield Pair("verify 2,000 small partitions", ours, "open and read each file", reads, 4)


def jobs(bench: Bench) -> Iterator[Pair]:
    """Two workers."""
    large = bench.directory("large")
    for path, what in (
        (bench.directory("small"), "many small"),
        (large, "two of 1 GiB"),
        (f"{large}/large-0", "one of 1 GiB"),
    ):
        ours, peer = bench.run("verify", "-j", "2", path), bench.run("verify", path)
        for of, most in (("wall", 0.6), ("cpu", 1.1)):
            yield Pair(f"verify -j 2, {what}, {of}", ours, "-j 1", peer, most, of)


def keys(bench: Bench) -> Iterator[Pair]:
    """Totals by key."""
    path, made = bench.directory("keys"), str(bench.data / "keys.arrow")
    ours = bench.run("usage", "--by", "key", path)
    group = shlex.join(bench.peer("keys", made))
    line = f'rm -f "$2"; kdump dump --format arrow --output "$2" "$1" && {group}'
    peer = bench.shell(line, path, made)
    for what, of, most in ((", memory", "memory", 256), ("", "cpu", 0.7)):
        work = f"usage --by key, 5 million keys{what}"
        yield Pair(work, ours, "dump to Arrow, group_by", peer, most, of)


def alike(bench: Bench) -> Iterator[Pair]:
    """Ten million keys in 1 GiB, of which one in a thousand comes twice."""
    path = bench.directory("alike")
    segments = [str(segment) for segment in sorted(Path(path).rglob("*.log"))]
    peer = bench.peer("values", *segments)
    floor = "loop of Python over the records"
    by_key, by_both = (("duplicates", "--by", by, path) for by in ("key", "key,value"))
    any_one, named = ("placement", path), ("placement", "--partitioner", "murmur2", path)
    for words, most in ((by_key, 1.5), (by_both, 2.5), (any_one, 2), (named, 1.5)):
        work = f"{' '.join(words[:-1])}, 10 million keys"
        yield Pair(work, bench.run(*words), floor, peer, most)
        yield Pair(f"{work}, memory", bench.run(*words), floor, peer, 256, "memory")


def internal(bench: Bench) -> Iterator[Pair]:
    """Internal topics, decoded."""
    metadata, offsets = (
        f"{bench.directory('internal')}/{topic}-0/{0:020d}.log"
        for topic in ("__cluster_metadata", "__consumer_offsets")
    )
    where = str(Path(metadata).parent)
    jsonl = ("dump", "--format", "jsonl")
    for work, words, path, most in (
        ("dump of cluster metadata", (*jsonl, where), metadata, 3.5),
        ("dump of offsets", (*jsonl, str(Path(offsets).parent)), offsets, 3.5),
        ("cluster", ("cluster", "--format", "jsonl", where), metadata, 4.5),
        ("groups", ("groups", "--format", "jsonl", str(Path(offsets).parent)), offsets, None),
    ):
        peer = bench.peer("values", path)
        floor = "loop of Python over the records"
        yield Pair(f"{work}, 1 million records", bench.run(*words), floor, peer, most)


def compare(bench: Bench) -> Iterator[Pair]:
    """Replicas that differ everywhere."""
    different, equal = bench.directory("different"), bench.directory("equal")
    both = [bench.run("compare", f"{path}/a", f"{path}/b") for path in (different, equal)]
    yield Pair("compare, every batch differs, 256 MiB", both[0], "compare equal", both[1], 5)
    peer = bench.run("verify", f"{equal}/a", f"{equal}/b")
    yield Pair("compare equal, 256 MiB", both[1], "verify of the same", peer, None)


def merge(bench: Bench) -> Iterator[Pair]:
    """Copies merged."""
    path = bench.directory("copies")
    ours, peer = bench.run("salvage", path), bench.run("verify", path)
    unsummed = bench.python(f"{WITHOUT_SHA256}{ENTRY}", "salvage", path)
    work = "salvage of three copies of 256 MiB"
    yield Pair(work, ours, "verify of the same", peer, 2, counted_as=unsummed)
    summed = shlex.join(bench.peer("sha256", f"{path}/1/copy-0/{0:020d}.log"))
    both = bench.shell(f'kdump verify "$1"; {summed}', path)
    yield Pair(work, ours, "verify and SHA-256 of one", both, None, counted=False)


def images(bench: Bench) -> Iterator[Pair]:
    """A raw image."""
    path = f"{bench.directory('image')}/disk.img"
    against, floor = "read and crc32c of all bytes", bench.peer("image", path)
    yield Pair("carve, 256 MiB", bench.run("carve", path), against, floor, None)


def sent(bench: Bench) -> Iterator[Pair]:
    """What would be sent to a broker."""
    path = bench.directory("copies")
    words = ("produce", "--dry-run", "--bootstrap-server", bench.broker())
    peer = bench.run("verify", path)
    work = "produce --dry-run of three copies of 256 MiB"
    yield Pair(work, bench.run(*words, path), "verify of the same", peer, None, counted=False)


def foretold(bench: Bench) -> Iterator[Pair]:
    """Forecasts."""
    for work, words, path, most in (
        ("predict, 2,000 small partitions", ("predict",), bench.directory("small"), 1.2),
        ("elect, 2 x 2,000 small partitions", ("elect",), bench.directory("replicas"), 1),
    ):
        paths = [path] if "small" in path else [f"{path}/{node}" for node in (1, 2)]
        ours, peer = bench.run(*words, *paths), bench.run("verify", *paths)
        yield Pair(work, ours, "verify of the same", peer, most)


def entries(bench: Bench) -> Iterator[Pair]:
    """A time index in the form of kafka-dump-log."""
    path = f"{bench.directory('large')}/large-0/{0:020d}.timeindex"
    ours = bench.run("dump", "--entries", "--format", "kafka", path)
    peer = bench.dump_log("--files", path)
    work = "--entries of a time index, 1 GiB log"
    yield Pair(work, ours, "kafka-dump-log", peer, 1 / 5, counted=False)


def headers(bench: Bench) -> Iterator[Pair]:
    """What asks for headers of batches alone, or for their checksums."""
    log, floor = bench.case("v2none"), "loop of Python over the headers"
    path, marked = str(Path(log).parent), f"{bench.directory('markers')}/with-0"
    summed = "loop of Python, crc32c"
    for words, where, against in (
        (("verify",), path, summed),
        (("reindex",), path, summed),
        (("usage",), path, floor),
        (("info",), path, floor),
        (("sql", "SELECT count(*) FROM records"), path, floor),
        (("sequences",), marked, floor),
        (("transactions",), marked, floor),
    ):
        peer = bench.peer("headers" if against == floor else "checksums", f"{where}/{0:020d}.log")
        what = "256 MiB" if where == path else "200,000 batches"
        yield Pair(f"{words[0]}, {what}", bench.run(*words, where), against, peer, None)


def whole(bench: Bench) -> Iterator[Pair]:
    """What answers about a whole data directory."""
    path = bench.directory("small")
    reads = bench.peer("files", path)
    page = str(bench.data / "report.html")
    for words in (("info",), ("why",), ("timeline",), ("report", "--force", "--output", page)):
        work = f"{words[0]}, 2,000 small partitions"
        yield Pair(work, bench.run(*words, path), "open and read each file", reads, None)
    for name in ("usage", "reindex", "sequences", "transactions"):
        ours, work = bench.run(name, path), f"{name}, 2,000 small partitions"
        yield Pair(work, ours, "open and read each file", reads, None)
    nodes = [f"{bench.directory('replicas')}/{node}" for node in (1, 2)]
    peer = bench.run("verify", *nodes)
    for name in ("compare", "salvage"):
        ours, work = bench.run(name, *nodes), f"{name}, 2 x 2,000 small partitions"
        yield Pair(work, ours, "verify of the same", peer, None)


def start(bench: Bench) -> Iterator[Pair]:
    """Start-up."""
    path = f"{bench.directory('small')}/small-0"
    click = bench.python("import click")
    yield Pair(
        "verify of one small partition", bench.run("verify", path), "import click", click, 1.5
    )
    alone = f"{bench.directory('medium')}/medium-0"
    for words in (("find-offset", "1"), ("find-time", "latest")):
        yield Pair(
            f"{words[0]} in one partition", bench.run(*words, alone), "import click", click, 1.4
        )
    snapshot = next(str(one) for one in sorted(Path(path).glob("*.snapshot")))
    for work, words in (
        ("--help", ("--help",)),
        ("schema", ("schema",)),
        ("info of one partition", ("info", alone)),
        ("dump of a producer snapshot", ("dump", "--entries", snapshot)),
    ):
        yield Pair(work, bench.run(*words), "import click", click, None)
    target = str(bench.data / "small.arrow")
    line = 'rm -f "$2"; kdump dump --format arrow --output "$2" "$1"'
    peer = bench.peer("import")
    ours = bench.shell(line, path, target)
    yield Pair("arrow of one small partition", ours, "import pyarrow.parquet", peer, 1.3)


def pure(bench: Bench) -> Iterator[Pair]:
    """The kernel in Python."""
    path = f"{bench.directory('medium')}/medium-0"
    ours, peer = (bench.run("dump", "--format", form, path) for form in ("jsonl", "csv"))
    yield Pair("pure kernel, JSON Lines of 4 MiB", ours, "pure csv", peer, 1, pure=True)


def noise(bench: Bench) -> Iterator[Pair]:
    """Memory on noise."""
    for where in ("a log", "the files next to a log"):
        path = bench.directory("noise" if where == "a log" else "noise_beside")
        ours = bench.run("verify", path)
        yield Pair(f"verify, noise in {where}, memory", ours, "", None, 64, "memory")


ROWS: tuple[Callable[[Bench], Iterator[Pair]], ...] = (
    *(of_records, kafka_text, copied, arrow, search, narrow, gzip, codecs, markers, pre08, small),
    *(jobs, keys, alike, internal, headers, whole, compare, merge, images, sent, foretold),
    *(entries, start, pure, noise),
)  # fmt: skip
