"""`verify --append`: what a broker answers to batches, on sample data and on small partitions."""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import builders as b
import captures
import commands
import zstandard
from click.testing import Result
from commands import DATA
from each import each

CLIENTS = Path(__file__).parents[2] / "captures/clients.pcap.gz"
NOW_MS = 1_700_000_000_000
OLD = DATA / "clean" / "2.8.2" / "oneseg-0"  # ends at 360


def run(
    path: Path, data: bytes, *options: str, status: int = 0, name: str = "sent.bin"
) -> dict[str, Any]:
    command = ["verify", "--append", "-", "--format", "jsonl", "--now", f"@{NOW_MS // 1000}"]
    done = commands.run(*command, *options, path, stdin=data)
    assert done.exit_code == status, done.output
    row: dict[str, Any] = json.loads(done.stdout)
    assert row["row"] == "append"
    assert row["accepted"] == (status == 0)
    return row


def plain(**fields: Any) -> bytes:
    fields = {"base_timestamp": NOW_MS} | fields
    return b.batch([b.record(0, 0), b.record(1, 5)], **fields)


def wrappers(count: int) -> bytes:
    """Write wrappers of three messages, which pack well together and badly one by one."""
    values = [bytes(range(20 * n, 20 * n + 20)) * 3 for n in range(4)]
    return b"".join(
        b.wrapper([b.message(at, b"k", values[n]) for at in range(3)], 2, timestamp=NOW_MS)
        for n in range(count)
    )


def test_batches_are_stored_with_the_next_offsets(tmp_path: Path) -> None:
    row = run(OLD, plain(), "--broker-version", "2.8", "--explain")
    assert (row["first_offset"], row["last_offset"], row["rewritten"]) == (360, 361, False)
    assert row["batches"] == [
        {
            "first_offset": 360,
            "last_offset": 361,
            "entries": 1,
            "magic": 2,
            "codec": "none",
            "timestamp_type": "CreateTime",
            "max_timestamp_ms": NOW_MS + 5,
            "size_bytes": len(plain()),
        }
    ]
    assert [step["step"] for step in row["steps"]] == ["topic", "log", "look", "offsets"]


def test_several_wrappers_become_one_of_limited_size() -> None:
    """KAFKA-1718; from 2.4 on several are refused, from 4.0 on messages are."""
    old = "--broker-version", "0.10.2"
    largest = max(len(wrappers(n + 1)) - len(wrappers(n)) for n in range(3))
    row = run(OLD, wrappers(3), *old, "--topic-config", "compression.type=lz4")
    assert (row["rewritten"], row["entries"], row["last_offset"]) == (True, 1, 368)
    assert row["size_bytes"] > largest
    limit = "--topic-config", f"max.message.bytes={largest}"
    row = run(OLD, wrappers(3), *old, *limit, status=4)
    assert row["error"] == "MESSAGE_TOO_LARGE"
    assert run(OLD, wrappers(2), "--broker-version", "2.4", status=4)["error"] == "INVALID_RECORD"
    assert run(OLD, wrappers(1), "--broker-version", "3.9")["batches"][0]["magic"] == 2
    assert run(OLD, wrappers(1), "--broker-version", "4.0", status=4)["error"] == "INVALID_RECORD"


def test_timestamp_limits_depend_on_the_release() -> None:
    late = plain(base_timestamp=NOW_MS + 2 * 3_600_000)
    assert run(OLD, late, "--broker-version", "3.9")["accepted"]
    row = run(OLD, late, "--broker-version", "4.0", status=4)
    assert row["error"] == "INVALID_TIMESTAMP"
    stamped = "--topic-config", "message.timestamp.type=LogAppendTime"
    row = run(OLD, late, "--broker-version", "4.0", *stamped)
    assert row["log_append_ms"] == row["batches"][0]["max_timestamp_ms"] == NOW_MS
    limit = "--config", "message.timestamp.before.max.ms=1000"
    row = run(OLD, plain(base_timestamp=NOW_MS - 2000), "--broker-version", "3.6", *limit, status=4)
    assert row["error"] == "INVALID_TIMESTAMP"


@each(
    ("data", "error"),
    [
        (plain(crc=7), "CORRUPT_MESSAGE"),
        (plain(base_offset=3), "INVALID_RECORD"),
        (plain(records_count=3), "INVALID_RECORD"),
        (plain(attributes=b.CONTROL), "INVALID_RECORD"),
        (plain(attributes=7), "UNKNOWN_SERVER_ERROR"),
        (b.batch([b.record(key=None)], base_timestamp=NOW_MS), "INVALID_RECORD"),
        (plain(base_timestamp=NOW_MS, attributes=1, payload=b"x"), "UNKNOWN_SERVER_ERROR"),
        (plain()[:40], "INVALID_RECORD"),
        (plain() + plain(), "INVALID_RECORD"),
        (bytes(30), "CORRUPT_MESSAGE"),
    ],
)
def test_refused_appends_name_the_error(data: bytes, error: str) -> None:
    compacted = "--topic-config", "cleanup.policy=compact"
    row = run(OLD, data, "--broker-version", "4.4", *compacted, status=4)
    assert row["error"] == error
    assert row["reason"]
    assert row["batches"] is None


def test_producer_state_on_disk_is_checked(tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    known = {"producer_id": 7, "producer_epoch": 3}
    log = plain(base_sequence=0, **known) + plain(base_offset=2, base_sequence=2, **known)
    log += b.batch(
        [b.record()], base_offset=4, base_sequence=0, producer_id=8, producer_epoch=0,
        attributes=b.TRANSACTIONAL, base_timestamp=NOW_MS,
    )  # fmt: skip
    (partition / f"{0:020}.log").write_bytes(log)

    def error(data: bytes, version: str = "4.4") -> str | None:
        status = 4
        try:
            row = run(partition, data, "--broker-version", version, status=status)
        except AssertionError:
            row = run(partition, data, "--broker-version", version)
        found: str | None = row["error"]
        return found

    assert error(plain(base_sequence=4, **known)) is None
    duplicate = run(partition, plain(base_sequence=0, **known), "--broker-version", "4.4")
    assert (duplicate["duplicate"], duplicate["first_offset"]) == (True, 0)
    assert (duplicate["entries"], duplicate["batches"]) == (0, [])
    assert error(plain(base_sequence=0, **known), "0.11") == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert error(plain(base_sequence=5, **known)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    fenced = {"producer_id": 7, "producer_epoch": 2}
    assert error(plain(base_sequence=0, **fenced)) == "INVALID_PRODUCER_EPOCH"
    newer = {"producer_id": 7, "producer_epoch": 4}
    assert error(plain(base_sequence=1, **newer)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    unknown = {"producer_id": 9, "producer_epoch": 0}
    assert error(plain(base_sequence=5, **unknown)) is None
    assert error(plain(base_sequence=5, **unknown), "2.4") == "UNKNOWN_PRODUCER_ID"
    other = {"producer_id": 8, "producer_epoch": 0}
    assert error(plain(base_sequence=1, **other)) == "INVALID_TXN_STATE"
    assert error(plain(base_sequence=1, attributes=b.TRANSACTIONAL, **other)) is None


def test_followers_keep_rising_offsets() -> None:
    def follower(data: bytes, status: int = 0) -> dict[str, Any]:
        return run(OLD, data, "--broker-version", "2.8", "--follower", status=status)

    assert follower(plain(base_offset=400))["first_offset"] == 400
    assert follower(plain(base_offset=359), 4)["error"] == "UnexpectedAppendOffsetException"
    twice = plain(base_offset=400) * 2
    assert follower(twice, 4)["error"] == "OffsetsOutOfOrderException"
    row = follower(wrappers(1)[:8].replace(bytes(8), bytes(8)) + wrappers(1)[8:], 4)
    assert row["error"] == "UnexpectedAppendOffsetException"


def test_old_releases_and_formats() -> None:
    row = run(OLD, b.message(0, None, b"v"), "--broker-version", "0.8.2")
    assert row["batches"][0]["timestamp_type"] is None
    compacted = "--topic-config", "cleanup.policy=compact", "--broker-version"
    assert run(OLD, b.message(0, None, magic=0), *compacted, "0.8.2")["accepted"]
    row = run(OLD, b.message(0, None, magic=0), *compacted, "0.9", status=4)
    assert row["error"] == "CORRUPT_MESSAGE"
    nested = b.wrapper([b.message(0), b.wrapper([b.message(0)], 1)], 1, timestamp=NOW_MS)
    old = b.wrapper(
        [b.message(0, magic=0), b.wrapper([b.message(0, magic=0)], 1, magic=0)], 1, magic=0
    )
    row = run(OLD, old, "--broker-version", "0.8.2")
    assert row["last_offset"] == row["first_offset"] + 1
    assert run(OLD, nested, "--broker-version", "3.9", status=4)["error"] == "INVALID_RECORD"
    down = "--topic-config", "message.format.version=0.10.0", "--broker-version"
    row = run(OLD, plain(), *down, "2.8")
    assert (row["batches"][0]["magic"], row["batches"][0]["entries"]) == (1, 2)
    assert run(OLD, plain(), *down, "3.0")["batches"][0]["magic"] == 2
    pre08 = next(path for path in (DATA / "clean" / "0.7.2").rglob("old0-0"))
    row = run(pre08, b.pre08_message() + b.pre08_message()[:4], "--broker-version", "0.7.2")
    assert row["valid_bytes"] == row["size_bytes"] == len(b.pre08_message())
    row = run(pre08, b.pre08_message(crc=1), "--broker-version", "0.7.2", status=4)
    assert row["error"] == "InvalidMessageException"


def test_tables_and_wrong_usage(tmp_path: Path) -> None:
    file = tmp_path / "sent.bin"
    file.write_bytes(plain())
    words = ["verify", "--append", str(file), "--format", "table", "--broker-version", "2.8"]
    shown = commands.run(*words, OLD)
    assert "accepted" in shown.output
    assert "360" in shown.output
    explained = commands.run(*words, "--explain", OLD)
    assert "the log ends at offset 360" in explained.output
    for more, said in (
        (["--append", str(file), "--deep"], "--deep cannot be used with --append"),
        (["--append", str(file), "--format", "reset-csv"], "--format reset-csv"),
        (["--follower"], "--follower requires --append"),
        (["--append", str(tmp_path / "none")], "No such file"),
        (["--append", str(tmp_path)], "directory"),
    ):
        done = commands.run("verify", *more, OLD)
        assert done.exit_code in (1, 2)
        assert said in done.output


def test_each_request_of_a_capture_has_an_answer(tmp_path: Path) -> None:
    """Each by itself, for the partitions under the paths; the row says by which frame it came.

    The form of the capture makes no difference: of packets, of frames, compressed, standard input.
    """
    partition = tmp_path / "orders-0"
    shutil.copytree(OLD, partition)
    capture = tmp_path / "capture"
    capture.write_bytes(gzip.decompress(CLIENTS.read_bytes()))
    done = verify("--broker-version", "4.4", "--append", capture, tmp_path)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 16
    accepted = [row for row in rows if row["accepted"]]
    assert {row["first_offset"] for row in accepted} == {360}
    frames = verify_frames(capture)
    assert [row["frame"] for row in rows] == [
        frame["number"] for frame in frames if frame["topic"] == "orders"
    ]
    for data in forms(capture.read_bytes()):
        capture.write_bytes(data)
        assert (
            done.stdout == verify("--broker-version", "4.4", "--append", capture, tmp_path).stdout
        )
        words = ["verify", "--broker-version", "4.4", "--append", "-", str(tmp_path)]
        assert done.stdout == commands.run(*words, "--format=jsonl", stdin=data).stdout
    missing = verify("--append", capture, DATA / "clean" / "4.1.1" / "d2")
    assert missing.exit_code == 1
    assert missing.stderr == (
        f"kdump: {capture}: no produce request for a partition in the given paths\n"
    )


def forms(data: bytes) -> list[bytes]:
    """Give a capture of packets in the other forms that it may have."""
    frames = b"".join(
        len(frame).to_bytes(4, "big") + frame for _, _, frame in captures.messages_in(data)
    )
    return [*map(gzip.compress, (data, frames)), zstandard.compress(data), frames]


def test_truncated_captures_are_reported(tmp_path: Path) -> None:
    """What comes before is answered; one line, or one finding with its position, says the rest."""
    partition = tmp_path / "orders-0"
    shutil.copytree(OLD, partition)
    data = gzip.decompress(CLIENTS.read_bytes())
    packed, _, _, frames = forms(data)
    capture = tmp_path / "capture"
    for cut, code, said in (
        (packed[:6000], "capture-cut-short", "ends early or is damaged"),
        (data[:20_000], "capture-cut-short", "The capture ends within"),
        (frames[:20_000], "frame-cut-short", "it has 267 bytes of 3,066."),
        (frames[:20], "frame-cut-short", "within"),
        (packed[:9], None, "ends early or is damaged"),
    ):
        capture.write_bytes(cut)
        done = verify("--broker-version", "4.4", "--append", capture, tmp_path)
        assert said in done.output
        told = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
        assert [row["code"] for row in told if row["severity"] != "note"] == [code] * bool(code)
        assert "Traceback" not in done.output
        if code:
            assert done.exit_code in (2, 3, 4)
            for command in ("dump", "verify", "sequences"):
                read = commands.run(command, "--format", "jsonl", capture)
                assert f'"code":"{code}"' in read.output
        else:
            assert done.exit_code == 1
    words = ["verify", "--append", "-", "-"]
    done = commands.run(*words, stdin=frames)
    assert done.exit_code == 2
    assert "standard input is already one of PATHS" in done.stderr


def verify(*words: object) -> Result:
    return commands.run("verify", "--format", "jsonl", *words)


def verify_frames(capture: Path) -> list[dict[str, Any]]:
    words = ["dump", "--rows", "frame", "--format", "jsonl", str(capture)]
    rows = [json.loads(line) for line in commands.run(*words).stdout.splitlines()]
    return [row for row in rows if (row["api"], row["direction"]) == ("Produce", "request")]
