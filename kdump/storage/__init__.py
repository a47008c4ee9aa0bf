"""Files on disk: segments, partitions, data directories, and the small files beside the logs.

| file | in | holds | read by |
| --- | --- | --- | --- |
| `N.log` | partition | entries of 0.8 and later | `local_log`, `file_records` |
| `N.kafka` | partition | messages of 0.6 and 0.7 | `pre08_records` |
| `N.index` | partition | relative offset, position: 8 bytes an entry | `index` |
| `N.timeindex` | partition | timestamp, relative offset: 12 bytes an entry | `time_index` |
| `N.txnindex` | partition | aborted transactions: 34 bytes an entry | `transaction_index` |
| `N.snapshot` | partition | producers below N: 10 bytes, then 46 each | `producer_snapshot` |
| `N-E.checkpoint` | metadata log | a snapshot in the form of a log | `file_records` |
| `leader-epoch-checkpoint` | partition | lines: epoch, start offset | `checkpoints` |
| `*-offset-checkpoint` | data directory | lines: topic, partition, offset | `checkpoints` |
| `partition.metadata`, `quorum-state` | partition | names and values | `properties` |
| `meta.properties`, `.kafka_cleanshutdown` | data directory | names and values | `properties` |

All numbers are big-endian and signed unless said otherwise; `layout` has the tables. An index on a
running or crashed broker has its full preallocated length, zeros behind the entries (I2). The end
of the written entries is where they stop to rise; a slot (0, 0) is never an offset entry, but may
be a time entry if it is the first (I3):

    0000001d 00001078   slot 0: offset base + 29 is in or behind the batch at position 4216
    00000029 000020d0   slot 1: offset base + 41, position 8400
    00000000 00000000   never written, and so to the end of the file

Readers here are total: damage comes back as data, with the good entries around it. Only a path
that cannot be opened raises.
"""
