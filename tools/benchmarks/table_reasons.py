"""Why rows of the performance table are missed: what profiles show, and what would be needed."""

#: By how the work of a row begins.
REASONS = """
- dump --format kafka: writing the text of 1.3 million records is three quarters of the time,
  start-up a fifth. The ratio depends on the machine: it was 0.06 on a faster one.
- verify, 256 MiB: start-up is two thirds of the time; the rest reads 256 MiB and computes their
  checksums, at 2.7 GiB/s.
- dump --format arrow: half of the time the system copies what is written, which the other has too;
  a fifth it copies the log that is read, where the other maps a file; gathering columns is a
  thirtieth, checksums and decoding are a hundredth; the rest is start-up, and Python for each run
  of batches.
- dump --format parquet: nearly all of it is pyarrow's own encoding and zstd; what is above the
  other is reading and checksums, as of arrow.
- dump --grep, literal: of 1,489 million instructions 853 million are what `dump --key` takes for
  the same log; searching keys and values and writing what is found are the rest. The ratio leaves
  1,132 million.
- dump --grep, regex: a pattern that is not plain text is matched with each key and value alone,
  by Python's `re`; a compiled search over a whole block would be needed.
- dump --from-time: start-up, 100 modules of kdump, is 315 million instructions of 551; 203 million
  see whether the 66,000 entries of each index rise, in Python: 79 million take them apart, 124
  million compare neighbors. The kernel doing that would leave 1.8 times `import click`.
- gzip, v2: inflating is a third of the time, and writing JSON, which the other does not do, nearly
  as much; start-up is a quarter, and has to become half of it to reach the ratio.
- gzip, v1 wrappers: inflating is half of the time, start-up a fifth; the rest is some 50 calls of
  Python for each wrapper; the kernel inflating one wrapper after the other would be needed.
- lz4, 1 GiB: a batch takes 247,000 instructions, 1.22 times the other's 202,000: 57,000 are the
  codec's, as of the other, 75,000 write JSON, which the other does not do, 17,000 decode.
- lz4: start-up is 300 million instructions of 1,311; without it the ratio is 1.22, see the row of
  1 GiB.
- snappy, 1 GiB: a batch takes 280,000 instructions, 1.69 times the other's 166,000: 68,000 are the
  codec's, 17,000 zero its buffer, 75,000 write JSON, which the other does not do, 17,000 decode.
- snappy: start-up is 300 million instructions of 1,449; without it the ratio is 1.69, see the row
  of 1 GiB.
- no codec: writing JSON, which the other does not do, is more than half of the instructions,
  start-up a seventh.
- gzip: inflating is what both do; start-up and writing JSON are all of the difference.
- verify 2,000 small partitions: some 1,200 calls of Python a partition, 2.3 million instructions:
  six files are listed, asked for and opened, each by five system calls, and ten checks see each
  segment begin and end; no call is over 4 % of it. A shorter way for partitions of one small
  segment would be needed, and be a second way to verify.
- verify -j 2, many small: start-up and the checks of the whole data directory are done by one
  process.
- verify -j 2, two: start-up, 0.1 s, is a sixth of the time of one process.
- verify -j 2, one: one process reads it. In pieces by two it took more of both: the headers that
  they found are packed, sent and judged by one, in the time of the walk itself, which reads from
  the page cache; judging by pieces would be needed.
- usage --by key: six tenths of the time is the kernel's table of keys, the rest groups kept and
  ordered in Python; the ratio moves by a fifth with how fast Arrow groups in the same run.
- placement --partitioner murmur2, 10 million keys: one partitioner takes three quarters of the time
  of all: as each key is another, most goes into the dictionary of keys, and into scratch files that
  are sorted and merged.
- dump of cluster metadata: one record in twenty is a setting, which may be a secret, and is left to
  the interpreter: that takes as long as all others.
- compare, every batch differs: some 300 calls of Python for each pair of batches, to pair them and
  to report the record that differs; the kernel comparing the columns of many pairs would be needed.
- salvage of three copies: the checksum of the result, which verify has not, is a quarter of it,
  0.15 s of 256 MiB; it is known only once the copies were compared which batches are in it. The
  other half above the ratio is each of them, read once more to see that it opens. Without the
  checksum it takes 2,643 million instructions, 2.99 times verify's 883 million: 500,000 calls, with
  start-up, take note of 16,488 batches one by one; to do that for many at once would be needed.
- predict, 2,000 small partitions: some 1,300 calls a partition more than verify's 1,270, most of
  them of C: a start reads each log three times, by its own rules, and builds its indexes again, for
  which seven files more are opened; then all small files are looked at as the node does. Of 200
  partitions it takes 1,208 million instructions, 1.53 times verify's 792 million.
- elect, 2 x 2,000 small partitions: each replica is started by the model and read once more.
- --entries of a time index: reading, checksums and decoding of 1 GiB are a quarter of the time, the
  rest is some 70 calls of Python for each of 66,000 entries; the kernel looking up all entries
  that fall into a run of batches would be needed.
- find-: 320 million instructions against 192. 115 to 118 modules of kdump are imported, at a
  million each: a quarter of that to find and to read one, the rest to make its functions and
  classes. The command with its options is 28 million, the lookup itself 10; 77 million are left by
  the ratio: the answer goes through more than 60 modules, as the broker that is asked is chosen by
  its directory, and what it would do at its start is followed. Each file is
  opened once, with two exceptions: a metadata log next to the partition is opened twice, because
  releases and settings are found apart; after an unclean stop a log is opened at each step of the
  start.
- verify of one small partition: 150 modules of kdump are imported, at a million each, and none of
  them is over a thirtieth of it; 41 million instructions list and read what is said of its 1,999
  neighbors: alone it takes 380 million. To reach the ratio half of the modules would have to be
  imported only after damage was seen: each of the checks would be apart from what it says of a
  finding.
- arrow of one small partition: click and 99 modules of kdump are imported besides pyarrow.
- pure kernel: both forms call the same functions and take the same time within a tenth; which is
  the faster changes from run to run.
"""


def reason_of(work: str) -> str:
    """Say why a row is missed, as far as that is known."""
    for begins, _, why in (each.partition(": ") for each in REASONS.split("\n- ")[1:]):
        if work.startswith(begins):
            return " ".join(why.split())
    return "the reason is not known."
