"""Archives with random damage: whatever the bytes say, nothing crashes, and members lie inside."""

import gzip
import io
import os
import random
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard

from kdump.errors import PathError
from kdump.stores.unpacking import Unpacker, kind_of

_LONG = os.environ.get("KDUMP_FUZZ") == "long"
COUNT = int(os.environ.get("KDUMP_FUZZ_COUNT", "20000" if _LONG else "600"))
LIMIT = 4 << 20


def seeds() -> dict[str, bytes]:
    rng = random.Random(1)
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for number in range(4):
            info = tarfile.TarInfo(f"d/orders-{number}/{0:020}.log")
            info.size = 700 * number
            tar.addfile(info, io.BytesIO(rng.randbytes(info.size)))
        link = tarfile.TarInfo("d/hard")
        link.type, link.linkname = tarfile.LNKTYPE, f"d/orders-1/{0:020}.log"
        tar.addfile(link)
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as packed:
        packed.writestr("orders-0/a.log", rng.randbytes(500))
        packed.writestr("orders-0/b.log", bytes(9000), zipfile.ZIP_DEFLATED)
    tar_bytes = plain.getvalue()
    return {
        "tar": tar_bytes,
        "gz": gzip.compress(tar_bytes),
        "zst": zstandard.compress(tar_bytes),
        "zip": zipped.getvalue(),
    }


def damaged(rng: random.Random, data: bytes) -> bytes:
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 20))):
        at = rng.randrange(len(made))
        if rng.random() < 0.15:
            del made[at:]
            if not made:
                return bytes(data[:1])
        elif rng.random() < 0.2:
            made[at : at + 8] = b"\xff" * 8
        else:
            made[at] = rng.randrange(256)
    return bytes(made)


@pytest.mark.fuzz
@pytest.mark.parametrize("form", sorted(seeds()))
def test_random_damage(tmp_path: Path, form: str) -> None:
    rng = random.Random(f"{form} {os.environ.get('KDUMP_FUZZ_SEED', '1')}")
    data = seeds()[form]
    path, room = tmp_path / "archive", tmp_path / "room"
    for _ in range(COUNT // 4):
        room.mkdir()
        path.write_bytes(damaged(rng, data))
        try:
            found = Unpacker(str(room), LIMIT, lambda total: None).view_of(str(path))
        except PathError:
            found = None
        for name, member in found.members.items() if found else ():
            assert ".." not in name.split("/")
            assert not name.startswith("/")
            assert Path(member.file).parent in (room, tmp_path)
            assert 0 <= member.start <= member.start + member.size
        for left in room.iterdir():
            assert left.name.startswith("unpacked-")
            assert left.stat().st_size <= LIMIT + (1 << 20)
            left.unlink()
        room.rmdir()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["archive"]


def test_what_is_an_archive_its_first_bytes_say() -> None:
    found = {form: kind_of(data[:512]) for form, data in seeds().items()}
    assert found == {"tar": "tar", "gz": "gzip", "zst": "zstd", "zip": "zip"}
    assert kind_of(b"") is None
    assert kind_of(bytes(512)) is None


def test_sparse_members_and_hard_links(tmp_path: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        info = tarfile.TarInfo("orders-0/first.log")
        info.size = 5
        tar.addfile(info, io.BytesIO(b"bytes"))
        link = tarfile.TarInfo("orders-1/second.log")
        link.type, link.linkname = tarfile.LNKTYPE, "orders-0/first.log"
        tar.addfile(link)
    path = tmp_path / "a.tar"
    path.write_bytes(made.getvalue())
    found = Unpacker(str(tmp_path), LIMIT, lambda total: None).view_of(str(path))
    assert found is not None
    first, second = found.members.values()
    assert first == second
    assert path.read_bytes()[first.start : first.start + first.size] == b"bytes"
    assert found.notes == []
