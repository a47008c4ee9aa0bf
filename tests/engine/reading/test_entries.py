import json
import random
import struct
from pathlib import Path

import corpus
import crc32c
import pytest
from builders import offset_index

from kdump.engine.reading import entries as entries_module
from kdump.engine.reading.entries import entries, has_entries
from kdump.errors import PathError
from kdump.findings.finding import Finding
from kdump.findings.rows import Row
from kdump.rows import dump as rows
from kdump.storage import properties
from kdump.storage.source import Source


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    path = tmp_path / "orders-7"
    path.mkdir()
    return path


def split(path: Path) -> tuple[list[Row], list[Finding]]:
    shown: list[Row] = []
    found: list[Finding] = []
    for item in entries(path):
        if isinstance(item, Row):
            shown.append(item)
        else:
            found.append(item)
    return shown, found


def write(directory: Path, name: str, data: bytes) -> Path:
    path = directory / name
    path.write_bytes(data)
    return path


class TestRows:
    def test_offset_index(self, orders: Path) -> None:
        path = write(
            orders,
            "00000000000000000100.index",
            offset_index([(29, 4216), (41, 8400)]) + bytes(800),
        )
        assert list(entries(path)) == [
            rows.OffsetIndexEntry("orders", 7, 100, slot=0, offset=129, position=4216),
            rows.OffsetIndexEntry("orders", 7, 100, slot=1, offset=141, position=8400),
        ]

    def test_member_order(self, orders: Path) -> None:
        path = write(orders, "00000000000000000100.timeindex", struct.pack(">qi", 5, 3))
        (row,), _ = split(path)
        assert json.dumps(row.fields) == (
            '{"topic": "orders", "partition": 7, "segment": 100, "slot": 0, "timestamp_ms": 5,'
            ' "offset": 103}'
        )

    def test_transaction_index(self, orders: Path) -> None:
        data = struct.pack(">hqqqq", 0, 1026, 15, 22, 10)
        path = write(orders, "00000000000000000000.txnindex.deleted", data)
        assert list(entries(path)) == [
            rows.AbortedTransaction(
                "orders", 7, 0, 0, 1026, first_offset=15, last_offset=22, last_stable_offset=10
            )
        ]

    def test_producer_snapshot(self, orders: Path) -> None:
        body = struct.pack(">i", 2)
        body += struct.pack(">qhiqiqiq", 21, 1, 48, 210, 3, 1700040361911, -1, -1)
        body += struct.pack(">qhiqiqiq", 22, 1, -1, -1, 0, -1, 4, 17)
        data = struct.pack(">hI", 1, crc32c.crc32c(body)) + body
        states, found = split(write(orders, "00000000000000000216.snapshot", data))
        assert found == []
        assert states[0] == rows.ProducerState(
            "orders",
            7,
            216,
            producer_id=21,
            producer_epoch=1,
            coordinator_epoch=-1,
            last_offset=210,
            last_sequence=48,
            last_timestamp_ms=1700040361911,
            current_txn_first_offset=None,
        )
        assert states[1].fields["current_txn_first_offset"] == 17

    def test_leader_epochs(self, orders: Path) -> None:
        path = write(orders, "leader-epoch-checkpoint", b"0\n1\n2 467\n")
        assert list(entries(path)) == [rows.LeaderEpoch("orders", 7, epoch=2, start_offset=467)]

    def test_offset_checkpoint(self, tmp_path: Path) -> None:
        path = write(tmp_path, "replication-offset-checkpoint", b"0\n1\norders 7 48230114\n")
        assert list(entries(path)) == [rows.CheckpointOffset(str(path), "orders", 7, 48230114)]

    def test_unknown_checkpoint(self, tmp_path: Path) -> None:
        path = write(tmp_path, "new-checkpoint", b"0\n1\norders 7 5\n")
        assert [row.row for row in split(path)[0]] == ["checkpoint-offset"]
        path = write(tmp_path, "new-checkpoint", b"0\n1\norders 7\n")
        assert list(entries(path)) == [rows.Property(str(path), "orders", "7")]

    @pytest.mark.parametrize(
        ("name", "data", "pairs"),
        [
            (
                "meta.properties",
                b"version=0\nbroker.id=1\n",
                [("version", "0"), ("broker.id", "1")],
            ),
            (
                "partition.metadata",
                b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
                [("version", "0"), ("topic_id", "AAAAAAAAAAAAAAAAAAAAAQ")],
            ),
            ("quorum-state", b'{"data_version":1}', [("data_version", "1")]),
            (".kafka_cleanshutdown", b'{"version":0}', [("version", "0")]),
            (".kafka_cleanshutdown", b"", []),
        ],
    )
    def test_properties(
        self, tmp_path: Path, name: str, data: bytes, pairs: list[tuple[str, str]]
    ) -> None:
        path = write(tmp_path, name, data)
        assert list(entries(path)) == [rows.Property(str(path), *pair) for pair in pairs]

    def test_relative_path_inside_the_directory(
        self, orders: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(orders, "00000000000000000000.index", offset_index([(1, 1)]))
        monkeypatch.chdir(orders)
        (row,), _ = split(Path("00000000000000000000.index"))
        assert (row.fields["topic"], row.fields["partition"]) == ("orders", 7)

    def test_directory_that_is_not_a_partition(self, tmp_path: Path) -> None:
        (row,), _ = split(write(tmp_path, "0.index", offset_index([(1, 1)])))
        assert (row.fields["topic"], row.fields["segment"]) == (None, 0)


class TestFindings:
    def test_stale_tail_has_one_note(self, orders: Path) -> None:
        data = offset_index([(29, 4216), (90, 9000), (60, 12000), (80, 16000)]) + bytes(80)
        path = write(orders, "00000000000000000000.index", data)
        rows, (found,) = split(path)
        assert len(rows) == 2
        assert (found.code, found.severity.value) == ("offset-index-stale", "note")
        assert (found.position, found.size_bytes) == (16, 16)
        assert (found.topic, found.partition, found.segment) == ("orders", 7, 0)

    def test_slot_out_of_order_is_one_finding_and_reading_continues(self, orders: Path) -> None:
        data = offset_index([(29, 4216), (41, 8400), (5, 12000), (80, 16000)])
        path = write(orders, "00000000000000000100.index", data)
        rows, (found,) = split(path)
        assert [row.fields["slot"] for row in rows] == [0, 1, 2, 3]
        assert (found.code, found.severity.value) == ("offset-index-order", "rebuild")
        assert (found.path, found.position, found.size_bytes) == (str(path), 16, 8)
        assert found.offset == 105
        assert found.expected == {"above": {"offset": 141, "position": 8400}}
        assert found.actual == {"offset": 105, "position": 12000}

    def test_many_slots_out_of_order_have_one_finding(self, orders: Path) -> None:
        path = write(
            orders, "00000000000000000000.index", offset_index([(9, 9), (1, 1), (2, 2), (10, 10)])
        )
        _, (found,) = split(path)
        assert found.message.endswith(", in 2 places.")

    def test_time_index_out_of_order(self, orders: Path) -> None:
        data = struct.pack(">qiqi", 5, 10, 6, 9)
        rows, (found,) = split(write(orders, "00000000000000000000.timeindex", data))
        assert len(rows) == 2
        assert found.code == "time-index-order"
        assert found.actual == {"timestamp_ms": 6, "offset": 9}

    @pytest.mark.parametrize(
        ("name", "data", "code", "position"),
        [
            ("0.index", offset_index([(1, 1)]) + b"abc", "offset-index-size", 8),
            ("0.timeindex", b"abc", "time-index-size", 0),
            ("0.txnindex", b"abc", "transaction-index-size", 0),
            ("0.snapshot", b"abc", "snapshot-size", 0),
            ("leader-epoch-checkpoint", b"0\n1\nx\n", "checkpoint-malformed", 4),
            ("recovery-point-offset-checkpoint", b"x", "checkpoint-malformed", 0),
            ("other-checkpoint", b"x", "checkpoint-malformed", 0),
            ("meta.properties", b"version=7", "properties-malformed", None),
            ("quorum-state", b"x", "properties-malformed", None),
        ],
    )
    def test_each_damage_has_one_finding(
        self, orders: Path, name: str, data: bytes, code: str, position: int | None
    ) -> None:
        _, (found,) = split(write(orders, name, data))
        assert (found.code, found.position) == (code, position)

    def test_unreadable_range_is_the_only_finding(
        self, orders: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Bad(Source):
            def _pread(self, view: memoryview, position: int) -> int:
                if position < 8192 and position + len(view) > 4096:
                    raise OSError(5, "I/O error")
                return super()._pread(view, position)

        monkeypatch.setattr(entries_module, "Source", Bad)
        data = offset_index((n, n) for n in range(1, 2001))
        rows, (found,) = split(write(orders, "00000000000000000000.index", data))
        assert (found.code, found.position, found.size_bytes) == ("unreadable", 4096, 4096)
        assert len(rows) == 2000
        assert rows[1999].fields["offset"] == 2000


class TestRefused:
    @pytest.mark.parametrize("name", ["00000000000000000000.log", "notes.txt", ".lock"])
    def test_file_of_another_kind_is_an_error(self, tmp_path: Path, name: str) -> None:
        path = write(tmp_path, name, b"")
        assert not has_entries(name)
        with pytest.raises(PathError, match="does not have the name"):
            list(entries(path))

    def test_directory_by_an_index_name(self, tmp_path: Path) -> None:
        (tmp_path / "0.index").mkdir()
        with pytest.raises(PathError, match="directory"):
            list(entries(tmp_path / "0.index"))

    def test_properties_file_of_impossible_size(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(properties, "SIZE_LIMIT", 10)
        with pytest.raises(PathError, match="11 bytes long"):
            list(entries(write(tmp_path, "meta.properties", b"version=0\n\n")))


@pytest.mark.parametrize("name", corpus.names("modern/data"))
def test_files_of_a_sound_directory_have_only_rows(name: str) -> None:
    counts: dict[str, int] = {}
    for path in corpus.files(corpus.corpus(name), "*"):
        if not has_entries(path.name):
            continue
        rows, found = split(path)
        assert found == [], path
        for row in rows:
            counts[row.row] = counts.get(row.row, 0) + 1
    assert set(counts) == {
        "offset-index-entry",
        "time-index-entry",
        "aborted-transaction",
        "producer-state",
        "leader-epoch",
        "checkpoint-offset",
        "property",
    }


@pytest.mark.fuzz
def test_mutated_files_never_raise(orders: Path) -> None:
    chance = random.Random(11)
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 21, 1, 48, 210, 3, 17, -1, -1)
    seeds = {
        "0.index": offset_index((n, n) for n in range(1, 30)) + bytes(80),
        "0.timeindex": b"".join(struct.pack(">qi", n, n) for n in range(1, 30)) + bytes(120),
        "0.txnindex": b"".join(struct.pack(">hqqqq", 0, 7, n, n + 1, n) for n in range(9)),
        "0.snapshot": struct.pack(">hI", 1, crc32c.crc32c(body)) + body,
        "leader-epoch-checkpoint": b"0\n3\n1 0\n2 467\n3 738\n",
        "replication-offset-checkpoint": b"0\n2\norders 0 48230114\nx 1 2\n",
        "new-checkpoint": b"0\n1\na b\n",
        "meta.properties": b"#\nnode.id=1\nversion=1\ncluster.id=abc\n",
        "partition.metadata": b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        "quorum-state": b'{"leaderId":1,"x":[{"a":2.5}],"data_version":0}',
        ".kafka_cleanshutdown": b'{"version":0,"brokerEpoch":745}',
    }
    for name, seed in seeds.items():
        for _ in range(60):
            data = bytearray(seed)
            for _ in range(chance.randrange(1, 6)):
                at = chance.randrange(len(data) + 1)
                kind = chance.randrange(4)
                if kind == 0:
                    data[at : at + 1] = bytes([chance.randrange(256)])
                elif kind == 1:
                    del data[at:]
                elif kind == 2:
                    data[at:at] = chance.randbytes(chance.randrange(9))
                else:
                    data[at : at + 8] = bytes(8)
            for item in entries(write(orders, name, bytes(data))):
                if isinstance(item, Finding):
                    json.dumps(item.fields())
                else:
                    json.dumps(item.fields).encode()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("leader-epoch-checkpoint", b"0\n0\n"),
        ("replication-offset-checkpoint", b"0\n0\n"),
        ("00000000000000000042.snapshot", bytes.fromhex("000165c2c6bd00000000")),
    ],
)
def test_file_without_entries_shows_its_version(orders: Path, name: str, data: bytes) -> None:
    path = write(orders, name, data)
    version = "1" if name.endswith("snapshot") else "0"
    assert split(path)[0] == [rows.Property(str(path), "version", version)]
