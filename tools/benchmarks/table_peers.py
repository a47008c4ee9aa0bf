"""What is measured beside kdump in Python."""

#: Lines before those that start kdump, so that its SHA-256 costs nothing.
WITHOUT_SHA256 = """
import hashlib
class Nothing:
    digest_size, update = 32, lambda *_: None
    digest, hexdigest = lambda _: bytes(32), lambda _: "0" * 64
hashlib.sha256 = lambda *_, **__: Nothing()
"""

#: The packages that it needs, and what it does.
PEERS: dict[str, tuple[tuple[str, ...], str]] = {
    "files": (
        (),
        """
import os, sys
for directory in os.scandir(sys.argv[1]):
    if directory.is_dir():
        for file in os.scandir(directory.path):
            with open(file.path, "rb") as opened:
                opened.read()
""",
    ),
    "values": (
        (),
        """
import struct, sys
for path in sys.argv[1:]:
    data, at = open(path, "rb").read(), 0
    while at < len(data):
        end, first = at + 12 + struct.unpack_from(">i", data, at + 8)[0], at + 61
        for _ in range(struct.unpack_from(">i", data, at + 57)[0]):
            size = data[first] >> 1
            if data[first] < 0x80:
                first += 1
            else:
                size, first = data[first] >> 1 & 0x3F | data[first + 1] << 6, first + 2
            record = data[first : first + size]
            first += size
        at = end
""",
    ),
    "headers": (
        (),
        """
import os, struct, sys
with open(sys.argv[1], "rb", buffering=0) as file:
    at, end = 0, os.fstat(file.fileno()).st_size
    while at < end:
        head = struct.unpack(">qiibIhiqqqhii", os.pread(file.fileno(), 61, at))
        at += 12 + head[1]
""",
    ),
    "checksums": (
        ("crc32c",),
        """
import struct, sys, crc32c
with open(sys.argv[1], "rb") as file:
    while head := file.read(61):
        size, crc = struct.unpack_from(">i5xI", head, 8)
        assert crc32c.crc32c(file.read(size - 49), crc32c.crc32c(head[21:])) == crc
""",
    ),
    "image": (
        ("crc32c",),
        """
import sys, crc32c
with open(sys.argv[1], "rb", buffering=0) as file:
    crc, block = 0, bytearray(1 << 20)
    while size := file.readinto(block):
        crc = crc32c.crc32c(memoryview(block)[:size], crc)
""",
    ),
    "sha256": (
        (),
        """
import sys, hashlib
found = hashlib.sha256()
for path in sys.argv[1:]:
    with open(path, "rb", buffering=0) as file:
        while data := file.read(1 << 20):
            found.update(data)
""",
    ),
    "import": (("pyarrow",), "import pyarrow.parquet"),
    "arrow": (
        ("pyarrow",),
        """
import sys, pyarrow as pa
source = pa.ipc.open_file(pa.memory_map(sys.argv[1]))
with pa.ipc.new_file(sys.argv[2], source.schema) as sink:
    for number in range(source.num_record_batches):
        sink.write_batch(source.get_batch(number))
""",
    ),
    "parquet": (
        ("pyarrow",),
        """
import sys, pyarrow as pa, pyarrow.parquet as pq
source = pa.ipc.open_file(pa.memory_map(sys.argv[1]))
with pq.ParquetWriter(sys.argv[2], source.schema, compression="zstd") as sink:
    for number in range(source.num_record_batches):
        sink.write_batch(source.get_batch(number))
""",
    ),
    "keys": (
        ("pyarrow",),
        """
import sys, pyarrow as pa, pyarrow.compute as pc
found = pa.ipc.open_file(pa.memory_map(sys.argv[1])).read_all().select(["key", "value"])
size = pc.add(pc.binary_length(found["key"]), pc.binary_length(found["value"]))
keyed = pa.table({"key": found["key"], "size": size})
groups = keyed.group_by("key").aggregate([("size", "sum"), ("size", "count")])
order = [("size_sum", "descending"), ("key", "ascending")]
print(groups.sort_by(order).slice(0, 20).to_pylist())
""",
    ),
    "aiokafka": (
        ("aiokafka",),
        """
import sys
from aiokafka.record import MemoryRecords
source = MemoryRecords(open(sys.argv[1], "rb").read())
while (batch := source.next_batch()) is not None:
    assert batch.validate_crc()
    for record in batch:
        pass
""",
    ),
}
