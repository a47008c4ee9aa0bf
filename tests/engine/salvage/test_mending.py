"""What --mend-headers keeps: batches whose header is wrong only where no checksum covers it."""

import struct
from pathlib import Path

import builders
import pytest
from comparing import batches, replica
from each import each
from salvaging import build_salvage, data_of, row_of

LOG = batches(0, 50)
DATA = [batch.data() for batch in LOG]


def with_field(number: int, at: int, form: str, value: int) -> bytes:
    """One batch with another value in its header."""
    data = bytearray(DATA[number])
    struct.pack_into(form, data, at, value)
    return bytes(data)


def count_stored(data: bytes, at: int, form: str) -> int:
    return int(struct.unpack_from(form, data, at)[0])


FIELDS = {
    "magic": (16, ">B", 44),
    "known magic": (16, ">B", 0),
    "length": (8, ">i", 1 << 20),
    "short length": (8, ">i", 20),
    "offset": (0, ">q", 1 << 40),
    "low offset": (0, ">q", 3),
    "leader_epoch": (12, ">i", 77),
    "low leader_epoch": (12, ">i", -5),
}


@pytest.mark.parametrize("field", FIELDS)
def test_repaired_batch_is_kept_unchanged(tmp_path: Path, field: str) -> None:
    at, form, value = FIELDS[field]
    one = replica(tmp_path, "one", [*DATA[:3], with_field(3, at, form, value), *DATA[4:]])
    fields, data = build_salvage(tmp_path, one, mend_headers=True)
    assert data == data_of(LOG)
    (mended,) = fields["mended"]
    assert (fields["lost"], fields["diverged"], fields["severity"]) == ([], [], None)
    assert (mended["from"], mended["to"]) == (LOG[3].base, LOG[3].last)
    right = count_stored(DATA[3], at, form)
    (change,) = mended["fields"]
    name = field.split()[-1]
    if name == "length":
        right = len(DATA[3]) - 12
    assert (change["name"], change["inferred"]) == (name, right)
    assert change["stored"] == value


@each("field", FIELDS)
def test_batches_are_mended_only_on_request(tmp_path: Path, field: str) -> None:
    at, form, value = FIELDS[field]
    one = replica(tmp_path, "one", [*DATA[:3], with_field(3, at, form, value), *DATA[4:]])
    assert row_of(one)["mended"] == []


def test_two_adjacent_batches_and_two_fields_are_repaired(tmp_path: Path) -> None:
    wrong = bytearray(with_field(3, 16, ">B", 44))
    struct.pack_into(">i", wrong, 12, 50)
    rest = [bytes(wrong), with_field(4, 16, ">B", 9), *DATA[5:]]
    fields, data = build_salvage(
        tmp_path, replica(tmp_path, "one", [*DATA[:3], *rest]), mend_headers=True
    )
    assert data == data_of(LOG)
    assert [len(one["fields"]) for one in fields["mended"]] == [2, 1]


def test_checksummed_bytes_are_not_mended(tmp_path: Path) -> None:
    wrong = bytearray(with_field(3, 16, ">B", 44))
    wrong[-1] ^= 1
    one = replica(tmp_path, "one", [*DATA[:3], bytes(wrong), *DATA[4:]])
    row = row_of(one, mend_headers=True)
    assert (row["mended"], row["lost"]) == ([], [[LOG[3].base, LOG[3].last]])


def test_repeated_batch_does_not_fill_a_hole(tmp_path: Path) -> None:
    one = replica(tmp_path, "one", [*DATA[:3], DATA[1], *DATA[4:]])
    row = row_of(one, mend_headers=True)
    assert (row["mended"], row["lost"]) == ([], [[LOG[3].base, LOG[3].last]])


def test_sound_copy_is_preferred_to_a_mended_batch(tmp_path: Path) -> None:
    one = replica(tmp_path, "one", [*DATA[:3], with_field(3, 16, ">B", 44), *DATA[4:]])
    two = replica(tmp_path, "two", DATA[:5])
    row = row_of(one, two, mend_headers=True)
    assert (row["mended"], row["lost"], row["records_count"]) == ([], [], 50)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(("at", "value"), [(16, 44), (8, 1 << 20), (3, 1), (6, 7), (7, 0)])
def test_wrapper_between_wrappers_is_kept(tmp_path: Path, magic: int, at: int, value: int) -> None:
    """Where the one after it begins is known only once that is opened."""

    def wrapper(first: int) -> bytes:
        numbers = range(3) if magic else range(first, first + 3)
        value = str(first).encode()
        inner = [builders.message(number, value=value, magic=magic) for number in numbers]
        return builders.wrapper(inner, first + 2, magic=magic)

    log = [wrapper(0), wrapper(3), wrapper(6), wrapper(9)]
    damaged = bytearray(log[2])
    struct.pack_into(">i" if at == 8 else ">B", damaged, at, value)
    path = tmp_path / "one" / "orders-0" / f"{0:020}.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join([*log[:2], damaged, log[3]]))
    assert build_salvage(tmp_path, path.parent, mend_headers=True)[1] == b"".join(log)
    assert row_of(path.parent)["records_count"] == 9


def test_wrapper_gets_the_offset_of_its_last_message(tmp_path: Path) -> None:
    """Consumers find what is inside only so (F12)."""

    def wrapper(outer: int) -> bytes:
        inner = [builders.message(at, value=b"v", magic=0) for at in range(3, 6)]
        return builders.wrapper(inner, outer, magic=0)

    def log(outer: int) -> bytes:
        return builders.message(2, magic=0) + wrapper(outer) + builders.message(6, magic=0)

    path = tmp_path / "one" / "orders-0" / f"{0:020}.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(log(3))
    assert build_salvage(tmp_path, path.parent, mend_headers=True)[1] == log(5)
    assert row_of(path.parent)["records_count"] == 5
