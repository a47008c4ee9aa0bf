"""The catalogue of findings: every code kdump can report, once.

A code is a stable word. With it stand how severe it is, what is wrong in one sentence, what that
means for readers, and what to do next. The manual page is held to this list by a test.
"""

from __future__ import annotations

from functools import partial

from kdump.findings.code import Code, Extent, Hides, Misplaced, Severity, Show

_note = partial(Code, Severity.NOTE)
_rebuild = partial(Code, Severity.REBUILD)
_damage = partial(Code, Severity.DAMAGE)


def _unframed(gap: str, sentence: str, show: Show) -> Code:
    """Make the entry of bytes behind which nothing can be framed."""
    return _damage(
        sentence,
        "Consumers go on where a broker serves them again, which the finding says; recover the "
        "range from a replica.",
        "No reader gets past this place by itself, and recovery of the segment cuts the log here.",
        show=show,
        hides=Hides.BATCHES,
        gap=gap,
    )


_BY_REINDEX = {
    "index": "Rebuild it with kdump reindex --only index, or let the broker recover the segment.",
    "timeindex": "Rebuild it with kdump reindex --only timeindex, or let the broker recover the "
    "segment.",
    "txnindex": "Recovery of the segment rewrites it; so does kdump reindex --only txnindex.",
    "leader-epochs": "Rebuild it with kdump reindex --only leader-epochs.",
}


def _by_reindex(only: str, sentence: str, meaning: str) -> Code:
    """Make the entry of a file beside the log that `reindex --only` rebuilds."""
    show = Show.HEX if only in ("index", "timeindex") else Show.ENTRIES
    return _rebuild(sentence, _BY_REINDEX[only], meaning, show=show, reindex=only)


def _dropped(sentence: str) -> Code:
    """Make the entry of a producer snapshot that brokers do not believe."""
    remedy = "Nothing: the broker deletes it at the next start and rebuilds it from the log."
    meaning = "None for readers; a start that needs it reads more of the log."
    return _rebuild(sentence, remedy, meaning, show=Show.ENTRIES)


CATALOGUE: dict[str, Code] = {
    "crc-mismatch": _damage(
        "The stored checksum of a batch is not the checksum of its bytes.",
        "Look at the batch with dump --hex; consumers go on where a broker serves them again, "
        "which the finding says.",
        "Consumers that verify checksums stop here; brokers serve the batch as it is, and cut the "
        "log here if they recover the segment.",
        hides=Hides.BATCHES,
        gap="crc-mismatch",
    ),
    "batch-length": _unframed(
        "length-too-small",
        "A length field is below the smallest message, so nothing behind it can be framed.",
        Show.RAW,
    ),
    "batch-cut-short": _unframed(
        "cut-short",
        "A batch says it is longer than the bytes that are left, and valid batches follow it.",
        Show.RAW,
    ),
    "batch-too-small": _unframed(
        "batch-too-small", "A batch is shorter than its own header.", Show.HEX
    ),
    "torn-tail": _damage(
        "The last entry of the file is incomplete or no entry at all: a write that did not finish.",
        "Nothing on a running broker (it may be writing); at the next unclean start it is cut off.",
        "Readers are handed everything before it.",
        show=Show.RAW,
        hides=Hides.BATCHES,
        ends_log=True,
        gap="short-tail",
    ),
    "tail-being-written": _note(
        "The last entry of an active segment is incomplete, and a broker is writing the file now.",
        "Nothing; a broker is writing. Ask again.",
        "None for readers: they are handed the entry when it is whole.",
        hides=Hides.BATCHES,
        ends_log=True,
        live=True,
        empty=True,
    ),
    "search-given-up": _damage(
        "In this file of 0.6 or 0.7 so much looks like a message that the rest was not searched.",
        "Recover the rest of the segment from a replica.",
        "Readers stop where the damage starts; what is whole behind it is not known.",
        show=Show.RAW,
        hides=Hides.BATCHES,
        gap="search-given-up",
    ),
    "preallocated-tail": _note(
        "The file ends in zeros that were reserved and never written.",
        "Nothing; the broker trims them when it rolls or closes the segment.",
        "None for readers: a broker knows where its data ends.",
        hides=Hides.BATCHES,
        ends_log=True,
        empty=True,
        gap="zeros",
    ),
    "magic-unknown": _damage(
        "The magic byte names no known format.",
        "Look at the bytes with dump --hex; salvage --mend-headers keeps a batch whose checksum is "
        "otherwise right.",
        "Readers fail at this batch.",
        stops_consumers=True,
        gap="magic-unknown",
    ),
    "codec-unknown": _damage(
        "The attributes name a compression codec that does not exist for this format.",
        "Look at the bytes with dump --hex.",
        "Consumers fail when they open the batch; brokers serve it as it is.",
        hides=Hides.RECORDS,
        stops_consumers=True,
    ),
    "attributes-reserved": _note(
        "Attribute bits of a batch are set that no version of Kafka has a meaning for.",
        "Find out what wrote it; look at the batch with dump --hex.",
        "None for readers of today: they pass over these bits.",
    ),
    "offset-not-rising": _damage(
        "Offsets do not rise from batch to batch.",
        "Compare with a replica, and recover the partition from one that is in order.",
        "Readers may see records twice or out of order; lookups by offset may pass over them.",
        misplaced=Misplaced.FOR_GOOD,
        offsets_lie=True,
    ),
    "offset-below-base": _damage(
        "The first batch of a segment starts below the base offset its file is named for.",
        "Compare with a replica, and recover the partition from one that is in order.",
        "Readers that look for these offsets are sent to the segment before: lookups by offset do "
        "not come to these records.",
        misplaced=Misplaced.FOR_GOOD,
        offsets_lie=True,
    ),
    "offset-past-next": _damage(
        "A batch reaches into the offsets of the next segment.",
        "Compare with a replica, and recover the partition from one that is in order.",
        "The same offsets stand in two segments: readers may see records twice or not at all.",
        misplaced=Misplaced.UNTIL_NEXT,
        offsets_lie=True,
    ),
    "offset-past-range": _damage(
        "A batch of the newest segment lies further above its base than an index can reach.",
        "Do not go by this offset: it lies outside the checksum. Compare with a replica; the "
        "records are whole.",
        "Lookups by offset do not come to these records; where they are the last, see "
        "log-end-astray.",
        misplaced=Misplaced.UNTIL_NEXT,
        offsets_lie=True,
    ),
    "log-end-astray": _damage(
        "The last batch of the log has an offset that cannot be right.",
        "Start no broker on it. In a copy, write the offset that fits over the first eight bytes "
        "of the batch, big-endian, which no checksum covers; or cut the log off where the batch "
        "starts and take .kafka_cleanshutdown away. Without the cut the latter is no way out: "
        "recovery keeps a sound batch and its offset, or refuses to start.",
        "A start takes that offset for the end of the log: new records get offsets from there on, "
        "which followers copy; where it lies below the log start every segment is deleted.",
        show=Show.NOTHING,
        misplaced=Misplaced.FOR_GOOD,
        loudest=True,
    ),
    "zero-tail": _damage(
        "A segment that is not preallocated ends in zeros.",
        "Reset groups that are stuck to the offset that the finding names. An unclean start cuts "
        "zeros off the newest segment; recover an older one from a replica.",
        "Consumers fail at the zeros, and none gets past this place by itself.",
        show=Show.NOTHING,
        hides=Hides.BATCHES,
        empty=True,
    ),
    "batch-count": _damage(
        "The header's record count, or its last offset delta, cannot be right.",
        "Look at the batch with dump --hex.",
        "Consumers fail at this batch, or are handed another number of records than were written.",
        stops_consumers=True,
    ),
    "records-undecodable": _damage(
        "The checksum is right but the records inside cannot be decoded to the end.",
        "Reset groups that are stuck to the offset that the finding names; the batch was written "
        "so, and a replica has it too.",
        "Consumers fail inside this batch, except in releases that the finding names; brokers "
        "serve it as it is.",
        hides=Hides.RECORDS,
        stops_consumers=True,
    ),
    "record-offset": _damage(
        "An offset inside a batch is outside the batch's own range, or does not rise.",
        "Look at the batch with dump --batches and find what wrote it: a replica has it too.",
        "Consumers are handed offsets that other records have, or that do not rise: they may see "
        "records twice or out of order.",
        offsets_lie=True,
    ),
    "wrapper-offset": _damage(
        "The offset of a compressed wrapper does not fit the messages inside.",
        "Compare with a replica: one that has another offset was changed later, on one of the two.",
        "With magic 1 consumers compute wrong offsets for the messages inside. With magic 0 these "
        "have their own, but a broker that looks for one goes by the wrapper's.",
        offsets_lie=True,
    ),
    "batch-max-timestamp": _damage(
        "The largest timestamp in a batch's header is not that of its records.",
        "Look at the batch with dump --batches: it was written so, and a replica has it too.",
        "Lookups by time and retention go by the header, not by the records.",
    ),
    "null-key": _note(
        "Records of a compacted topic have no key.",
        "Nothing, if the topic's own policy is another; else the cleaner passes over them.",
        "A cleaner drops records without a key.",
    ),
    "slack-bytes": _note(
        "Messages of magic 0 or 1 have bytes behind their value.",
        "Nothing; every reader passes over them.",
        "None for readers.",
    ),
    "inner-crc-mismatch": _damage(
        "The checksum of a message inside a compressed wrapper is wrong.",
        "kdump dump shows the messages, this one with a mark; consumers go on where a broker "
        "serves them again, which the finding says.",
        "Consumers that verify checksums stop at this message, and do not get those behind it in "
        "the wrapper.",
    ),
    "inner-cut-short": _note(
        "The uncompressed bytes of a wrapper end in a piece of a message, which brokers pass over.",
        "Nothing; no reader sees that piece.",
        "None for readers.",
        hides=Hides.RECORDS,
        undecoded="inner-cut-short",
    ),
    "over-decompress-limit": _note(
        "A batch has more uncompressed bytes than --decompress-limit, so it was not looked at.",
        "Raise --decompress-limit to read it.",
        "Not known: the batch was not opened.",
        hides=Hides.RECORDS,
        undecoded="over-limit",
    ),
    "codec-missing": _note(
        "The library for this codec is not installed, so the records were not looked at.",
        "Install the library.",
        "Not known: the batch was not opened.",
        hides=Hides.RECORDS,
        undecoded="codec-missing",
    ),
    "control-record": _damage(
        "The key or value of a control record is not what its type asks for.",
        "Look at the batch with dump --hex.",
        "What became of a transaction cannot be read from it.",
    ),
    "unreadable": _damage(
        "The device gave an I/O error for this range of the file.",
        "Copy the file away with a rescue tool; recover the range from a replica.",
        "A broker that meets the same error takes the whole data directory offline.",
        hides=Hides.BATCHES,
    ),
    "file-shrank": _note(
        "The file became shorter while it was read, as on a live broker that truncates or deletes.",
        "Nothing; ask again.",
        "None, if a broker runs on the directory.",
        extent=Extent.TO_THE_END,
        ends_log=True,
        live=True,
    ),
    "internal-error": _damage(
        "kdump failed on this partition or directory.",
        "Report it with the traceback that KDUMP_TRACEBACK=1 prints; meanwhile use another command "
        "or a replica.",
        "Findings reported before it are valid; the rest of it was not checked. Other partitions "
        "were. Damaged files are the most frequent cause.",
        show=Show.NOTHING,
    ),
    "file-vanished": _note(
        "The file was there when the directory was listed and is gone, as after retention.",
        "Nothing; ask again.",
        "None, if a broker runs on the directory.",
        extent=Extent.FILE,
        live=True,
    ),
    "partition-changing": _note(
        "Files were exchanged each time the partition was looked at, so it could not be judged.",
        "Ask again when the broker is less busy with it.",
        "What seemed wrong may only be an index of before beside a log of after.",
        live=True,
    ),
    "high-watermark-unknown": _note(
        "The high watermark is not on disk or is older than the data, so the log end serves.",
        "Records above the true high watermark may be shown.",
        "More may be shown than consumers are handed.",
    ),
    "log-start-unknown": _note(
        "The checkpoint of log start offsets cannot be read, so the first segment's base serves.",
        "Records below the true log start may be shown.",
        "More may be shown than consumers are handed.",
    ),
    "last-stable-offset": _note(
        "What disk alone says about open transactions is incomplete, so the last stable offset "
        "is a best estimate.",
        "Ask the broker if it matters.",
        "Consumers that read committed data may be handed more or less than is shown.",
    ),
    "read-committed-stops": _note(
        "Readers of committed data stop before a transaction that is open.",
        "verify says whether it hangs, and what ends it.",
        "What lies behind is handed out when the transaction ends.",
    ),
    "cleaned-key-twice": _note(
        "Two records of one key lie below the cleaner's checkpoint, where only the last should.",
        "Stop the broker, take the partition's line out of cleaner-offset-checkpoint, and lower "
        "the count in its second line: the next cleaning begins at the log start.",
        "A cleaning did not see them, or the log or the checkpoint is of another broker; readers "
        "get the older value before the newer one.",
    ),
    "directory-name": _note(
        "The directory's name is no topic and partition.",
        "Nothing, if it is not a partition.",
        "A broker refuses to start on a directory that it cannot name.",
    ),
    "topic-name": _note(
        "The topic has a name that Kafka does not allow, so it is left out of the reset plan.",
        "Nothing; no broker made this directory.",
        "Brokers load such a directory, and no client can ask for it.",
    ),
    "file-not-held": _note(
        "A file of a copy is not kept open while the salvage runs.",
        "Raise the limit of open files (ulimit -n), or keep the directory with hard links.",
        "If a broker deletes the file before it was read, its records are missing from the result.",
    ),
    "source-is-target": _note(
        "The cluster itself keeps the topic in this directory, so it is not a source.",
        "Nothing; name a directory that has other copies if records are missing.",
        "What is produced arrives in this directory.",
    ),
    "produced-short": _damage(
        "Fewer records were produced than were planned.",
        "Type the same command again with a path that still has the copies.",
        "The partition is not marked as done, and its groups get no offsets.",
        show=Show.NOTHING,
    ),
    "pre08-gap": _damage(
        "0.7 segments do not join: one does not start where the one before it ends.",
        "Find the missing file, in a backup or on another volume.",
        "A 0.7 broker does not start with it; readers cannot get from one segment to the other.",
    ),
    "offset-index-size": _by_reindex(
        "index",
        "The offset index is no whole number of entries long.",
        "A broker rebuilds it at an unclean start; until then it goes by the whole entries.",
    ),
    "offset-index-order": _by_reindex(
        "index",
        "Entries of the offset index do not rise.",
        "A fetch may start too far back, or too far ahead and miss records.",
    ),
    "log-too-short": _damage(
        "The indexes of a segment know of batches behind the end of its log.",
        "Recover the segment from a replica; a consumer goes on at the next segment by itself.",
        "The records behind the end of the log are gone.",
        show=Show.NOTHING,
        extent=Extent.TO_THE_END,
    ),
    "offset-index-missing": _rebuild(
        "A segment has no offset index.",
        "Nothing: the next start rebuilds both its indexes. kdump reindex --only index,timeindex "
        "does so before it.",
        "A start rebuilds it, which reads the whole segment.",
        reindex="index,timeindex",
    ),
    "offset-index-empty": _note(
        "The offset index of a sealed segment is empty, though its log is long enough for entries.",
        "Nothing: lookups are right but scan the log from its start; reindex makes them fast.",
        "A fetch reads the segment from its start on.",
    ),
    "offset-index-position": _by_reindex(
        "index",
        "An entry of the offset index names a position at which no batch starts.",
        "A fetch that uses the entry starts in the midst of a batch and fails.",
    ),
    "offset-index-offset": _by_reindex(
        "index",
        "An entry of the offset index names an offset that does not belong to its position.",
        "A fetch that uses the entry may start too far ahead and miss records.",
    ),
    "offset-index-zeros": _by_reindex(
        "index",
        "The offset index of a segment that is not the newest ends in zeros.",
        "A fetch that comes upon the zeros reads the segment from its start on.",
    ),
    "offset-index-stale": _note(
        "An untrimmed offset index holds old entries behind its end, as after a truncation.",
        "Nothing; the broker does not look at them.",
        "None for readers.",
    ),
    "time-index-size": _by_reindex(
        "timeindex",
        "The time index is no whole number of entries long.",
        "A broker rebuilds it at an unclean start; until then it goes by the whole entries.",
    ),
    "time-index-order": _by_reindex(
        "timeindex",
        "Entries of the time index do not rise.",
        "Lookups by time may be answered with another offset than the right one.",
    ),
    "time-index-missing": _rebuild(
        "A segment has no time index, though its neighbours have.",
        "Rebuild it with kdump reindex --only timeindex before a start, which makes it anew but "
        "empty.",
        "Lookups by time may pass the segment over.",
        reindex="timeindex",
    ),
    "time-index-offset": _by_reindex(
        "timeindex",
        "An entry of the time index leads a lookup past a record that it should find.",
        "Lookups by time may miss records.",
    ),
    "time-index-entry": _by_reindex(
        "timeindex",
        "An entry of the time index names a time that its offset does not have.",
        "Lookups by time may be answered with another offset than the right one.",
    ),
    "time-index-last": _by_reindex(
        "timeindex",
        "The last entry of the time index is not the largest time of its segment.",
        "Lookups by time choose the wrong segment; retention by time goes by this entry too.",
    ),
    "time-index-zeros": _by_reindex(
        "timeindex",
        "The time index of a segment that is not the newest ends in zeros.",
        "Lookups by time may be answered with another offset than the right one.",
    ),
    "time-index-stale": _note(
        "An untrimmed time index holds old entries behind its end, as after a truncation.",
        "Nothing; the broker does not look at them.",
        "None for readers.",
    ),
    "offset-lookup-differs": _by_reindex(
        "index",
        "The offset index leads a fetch to another record than a scan of the log finds.",
        "A consumer that seeks there is handed other records than it should be.",
    ),
    "time-lookup-differs": _rebuild(
        "The indexes lead a lookup by time to another record than a scan of the log finds.",
        "Rebuild them with kdump reindex --only index,timeindex, or let the broker recover the "
        "segment.",
        "A consumer that seeks by this time starts at the wrong record.",
        reindex="index,timeindex",
    ),
    "time-lookup-passes-over": _note(
        "A lookup by time answers otherwise than a scan, by the broker's own rules.",
        "Nothing; the indexes are sound. scan_offset says where the record is.",
        "A consumer that seeks by this time is answered as every broker answers.",
    ),
    "transaction-index-size": _rebuild(
        "The transaction index ends in a piece of an entry, which brokers pass over.",
        "Nothing at once; recovery of the segment rewrites it, and so does kdump reindex --only "
        "txnindex.",
        "None at once: brokers do not look at the piece.",
        show=Show.ENTRIES,
        reindex="txnindex",
    ),
    "transaction-index-version": _by_reindex(
        "txnindex",
        "An entry of the transaction index has a version the newest brokers do not read.",
        "A read_committed fetch of this segment fails, and so does the start of a broker.",
    ),
    "transaction-index-order": _by_reindex(
        "txnindex",
        "Entries of the transaction index do not rise.",
        "A read_committed consumer may be handed aborted records.",
    ),
    "transaction-index-marker": _by_reindex(
        "txnindex",
        "An entry of the transaction index names no ABORT marker of its producer.",
        "read_committed readers skip all that the producer wrote up to its next abort, committed "
        "records too.",
    ),
    "transaction-index-first-offset": _by_reindex(
        "txnindex",
        "An entry of the transaction index lets its transaction begin elsewhere than the log does.",
        "read_committed readers are handed aborted records, or denied committed ones.",
    ),
    "transaction-index-stable-offset": _by_reindex(
        "txnindex",
        "An entry of the transaction index has a last stable offset that the log denies.",
        "A broker may stop collecting too early, and hand out aborted records.",
    ),
    "transaction-index-missing": _rebuild(
        "Aborted transactions of a segment have no entry in its transaction index.",
        "Rebuild it with kdump reindex --only txnindex; a broker does so only where it recovers "
        "the segment.",
        "read_committed readers are handed the records of these transactions.",
        show=Show.ENTRIES,
        reindex="txnindex",
    ),
    "transaction-open": _note(
        "A transaction has no marker yet.",
        "Nothing while its producer is at work.",
        "read_committed readers wait at the first offset of the earliest one.",
    ),
    "transaction-hanging": _damage(
        "A transaction has no marker and none will come: no coordinator awaits it, or it is older "
        "than any may be.",
        "On a running cluster: kafka-transactions.sh --bootstrap-server BOOTSTRAP abort "
        "--topic TOPIC --partition PARTITION --start-offset OFFSET",
        "read_committed readers stop at the first offset of the earliest one, for good, and "
        "compaction does too.",
        blocks_committed=True,
    ),
    "transaction-mixed": _damage(
        "A producer's batch is not transactional though a transaction of that producer is open.",
        "Look at the batch with dump --hex, and at others of its producer with dump --batches "
        "--producer-id; compare with a replica.",
        "Readers see the records; a broker that replays the log from before fails to load it.",
    ),
    "control-type-unknown": _note(
        "A control record is of a type that no broker knows.",
        "Look at the batch with dump --hex.",
        "Readers pass over it.",
    ),
    "control-count": _note(
        "The batch of a transaction marker holds more than one record.",
        "Look at the batch with dump --hex.",
        "Brokers and readers act on the first record only.",
    ),
    "sequence-duplicate": _note(
        "A producer's sequence numbers are in the log a second time.",
        "Compare both batches with dump --producer-id.",
        "Readers may be handed the same records twice.",
    ),
    "sequence-gap": _note(
        "Sequence numbers of a producer are missing where no offset is.",
        "Compare both batches with dump --producer-id; ask the producer.",
        "Records that the producer sent may never have been stored.",
    ),
    "producers-not-checked": _note(
        "So many transactions are open at once that producers were not followed to the end.",
        "Nothing; sequences, snapshots and transaction indexes of the rest were not checked.",
        "Nothing is known about them.",
    ),
    "snapshot-size": _dropped(
        "A producer snapshot is shorter or longer than its entry count says."
    ),
    "snapshot-version": _dropped("A producer snapshot has a version no broker reads."),
    "snapshot-crc": _dropped("The checksum of a producer snapshot is wrong."),
    "snapshot-differs": _rebuild(
        "A producer snapshot contradicts the log below its offset.",
        "Move it away before an unclean start; the broker then replays the log from an older one.",
        "A broker that starts from it may refuse a producer, store records twice, or hold "
        "read_committed readers back.",
        show=Show.ENTRIES,
    ),
    "snapshot-stray": _note(
        "A producer snapshot is of an offset below the first segment, or beyond the log end.",
        "Nothing; the next start deletes it.",
        "No broker reads it.",
    ),
    "snapshot-missing": _note(
        "Producers wrote to older segments, and there is no producer snapshot.",
        "Before a clean start: remove the clean shutdown mark, so that producers are read from "
        "the log.",
        "A broker that starts on a clean mark knows no producer, and no open transaction.",
    ),
    "leader-epoch-odd": _damage(
        "The leader epoch of one batch is not that of its place in the log.",
        "Compare with a replica; the records are whole, and dump shows them.",
        "Consumers and followers that hold epochs against the leader's may find the log diverged, "
        "and stop or truncate.",
    ),
    "leader-epoch-falls": _note(
        "Leader epochs fall from batch to batch.",
        "Compare with a replica.",
        "Within one log they never do, unless it was repaired by hand.",
    ),
    "leader-epochs-order": _by_reindex(
        "leader-epochs",
        "Epochs or start offsets of the leader epoch checkpoint do not rise.",
        "A broker drops the entries before; a follower may truncate too much or too little.",
    ),
    "leader-epochs-start": _by_reindex(
        "leader-epochs",
        "The leader epoch checkpoint lets an epoch begin elsewhere than the log does.",
        "A follower that asks where the epoch ends may truncate too much or too little.",
    ),
    "leader-epochs-missing": _rebuild(
        "The leader epoch checkpoint lacks an epoch that batches of the log have.",
        "Rebuild it with kdump reindex --only leader-epochs; recovery of all segments does too.",
        "Followers fall back to the high watermark when they truncate, and may keep records that "
        "the leader has not.",
        show=Show.ENTRIES,
        reindex="leader-epochs",
    ),
    "checkpoint-malformed": _rebuild(
        "A checkpoint file is not in the form a broker reads.",
        "Restore it, or delete it before a start if the broker can do without.",
        "A broker does not believe any of the file.",
        show=Show.ENTRIES,
    ),
    "properties-malformed": _rebuild(
        "A properties or JSON file is not in the form a broker reads.",
        "Restore it from another directory of the same broker.",
        "A broker may refuse to start, or to load the partition.",
        show=Show.ENTRIES,
    ),
    # What `predict` foretells.
    "start-loses-records": _damage(
        "The next start of the broker would lose records.",
        "Before any start copy the directory away; with a sound replica elsewhere, delete this "
        "one and let the broker fetch it anew.",
        "Readers do not get these records any more, and their offsets are given out again.",
    ),
    "start-refused": _damage(
        "The next start of the broker would fail.",
        "Mend what stops it before the start; where it is one partition, that may be moved out of "
        "the data directory.",
        "The broker, and with it every partition it holds, stays down.",
    ),
    # Files and directories by their names, and what only all of them together show.
    "log-name": _damage(
        "A log is not named with twenty digits, and brokers open no other spelling.",
        "Stop the broker and rename the file to what is expected; an empty file of that name that "
        "a start made goes first.",
        "A start makes an empty segment in its place: no reader sees these records.",
    ),
    "file-name": _note(
        "A segment's file is not named with twenty digits, and brokers open no other spelling.",
        "Rename it to what is expected, or remove it.",
        "A broker does not use it; an index it lacks for this is rebuilt.",
    ),
    "file-stops-start": _rebuild(
        "A file's name ends like a segment's and does not begin with a number.",
        "Move the file out of the directory before the next start.",
        "A broker fails over it when it loads the partition, and may not start at all.",
    ),
    "file-unknown": _note(
        "A file or directory has a name that brokers do not know.",
        "Nothing, or move it elsewhere.",
        "Brokers pass over it.",
    ),
    "file-access": _rebuild(
        "The user to whom most files here belong cannot open one that a broker needs.",
        "Give the file to the broker's user (chown, chmod) before the next start.",
        "A start fails here, or takes the data directory out of service; the records are whole.",
    ),
    "index-without-log": _note(
        "Indexes lie here without the log they belong to.",
        "Nothing; a start removes them. Where the log is missed, look for it.",
        "No reader uses them.",
    ),
    "leftover": _note(
        "Files of something that did not finish, or that waits for its removal, were left over.",
        "Nothing; a start removes them or passes over them.",
        "No reader sees them.",
    ),
    "reindex-unfinished": _note(
        "A rebuild by kdump did not finish.",
        "Run reindex again, or remove the file.",
        "Brokers pass over it; the file it was to replace is still in place.",
    ),
    "swap-left": _note(
        "Replacements of segments were not put in place.",
        "Nothing; the next start finishes it.",
        "Until the next start the segments they replace are read, if those are there.",
    ),
    "segments-apart": _note(
        "Offsets are missing between two segments, and the cleaner may have removed them.",
        "If this topic was never compacted, recover them from a replica. --server-properties, or "
        "the data directory with the metadata log, shows whether it was.",
        "Consumers skip the missing offsets silently, and brokers do not notice.",
    ),
    "segment-missing": _damage(
        "A segment is missing from a log.",
        "Recover the segment from a replica or a backup.",
        "Consumers skip the missing offsets silently, and brokers do not notice.",
        show=Show.NOTHING,
    ),
    "partition-empty": _note(
        "A partition's directory holds no segment.",
        "Nothing, if the partition is new.",
        "A start makes an empty segment at the log start offset.",
    ),
    "directory-retired": _note(
        "The directory is on its way in or out.",
        "Nothing; the broker finishes it.",
        "No consumer reads from it.",
    ),
    "directory-stops-start": _rebuild(
        "A directory among the partitions has a name that is no topic and partition.",
        "Move it out of the data directory before the next start. lost+found belongs to the file "
        "system: point log.dirs at a directory below the mount.",
        "Brokers refuse to start over it; the records are whole.",
    ),
    "partition-twice": _rebuild(
        "Two data directories of one broker hold the same partition.",
        "Compare them, and move the one that is behind out of the data directory.",
        "Brokers refuse to start because of it.",
    ),
    "partition-missing": _damage(
        "The cluster metadata log places a partition here, and no data directory has it.",
        "Restore the directory, or let the broker make the partition anew from its leader.",
        "A start makes it anew and empty; where this was the only replica its records are lost.",
    ),
    "partition-metadata-missing": _rebuild(
        "A partition has no partition.metadata, which names its topic id.",
        "Before the next start write the file anew: version: 0, and the topic_id that the other "
        "partitions or replicas of the topic have.",
        "From 3.7 on a start renames the directory to -stray and starts over with an empty one.",
    ),
    "topic-id-differs": _damage(
        "A partition names another topic id than the rest of its topic, or than the cluster.",
        "Before the next start find out which is right. If the topic was deleted, copy the "
        "directory away. If the file is wrong, write the cluster's id into partition.metadata.",
        "A start of 3.7 or later renames the directory to -stray and starts over with an empty "
        "one; before, the broker does not serve the partition.",
        show=Show.NOTHING,
    ),
    "topic-unknown": _note(
        "The cluster metadata log knows no partition of this topic id and number.",
        "Nothing, if the topic was deleted while the broker was down.",
        "From 3.7 on a start renames the directory to -stray.",
    ),
    "replica-not-assigned": _note(
        "The cluster metadata log assigns the partition to other brokers.",
        "Nothing, if it was moved away while the broker was down.",
        "From 3.7 on a start renames the directory to -stray.",
    ),
    "meta-properties-differ": _rebuild(
        "Data directories of one broker do not agree in meta.properties.",
        "Find out which directory does not belong here; restore its meta.properties if it does.",
        "Brokers refuse to start because of it.",
    ),
    "meta-properties-missing": _damage(
        "A data directory of a KRaft broker has no meta.properties.",
        "If the volume was not mounted whole, mount it. Else write the file again before the next "
        "start, with the version, node.id and cluster.id of the other directories or nodes.",
        "KRaft nodes refuse to start because of it.",
    ),
    "meta-properties-malformed": _damage(
        "A meta.properties is not in the form a broker reads, or names no node.",
        "Write the file again before the next start, with the version, node.id and cluster.id of "
        "the other directories or nodes.",
        "Brokers refuse to start because of it, or start without the directory.",
        show=Show.ENTRIES,
    ),
    "meta-properties-foreign": _damage(
        "A meta.properties names another node or cluster than its data directory is of.",
        "Find the owner of the volume, and mount it there. If only the file is wrong, restore it.",
        "Brokers refuse to start because of it.",
    ),
    "metadata-snapshot-missing": _damage(
        "The cluster metadata log starts above 0 and no snapshot reaches its start.",
        "Restore the snapshot, or let the node fetch one from the quorum.",
        "The node refuses to start: what lies below the log start is nowhere on it.",
    ),
    "metadata-snapshot-incomplete": _damage(
        "A snapshot of the cluster metadata lacks its first or last record.",
        "Remove it before a start if an older one and the log from there on are whole.",
        "The node cannot load it.",
    ),
    "metadata-snapshot-damaged": _damage(
        "A snapshot of the cluster metadata holds bytes that are no sound batch.",
        "Remove it before a start if an older one and the log from there on are whole; else take "
        "the file of that name from another controller, or let the node fetch one.",
        "The node fails where it loads the snapshot; no consumer reads it.",
        show=Show.NOTHING,
    ),
    "metadata-records-missing": _damage(
        "Records of the cluster metadata log cannot be read.",
        "Take the partition directory from another controller, or let the node fetch it anew.",
        "What they said of topics, settings or leaders is not known, unless a later snapshot has "
        "it. A node cannot replay its log over them.",
        show=Show.NOTHING,
    ),
    "checkpoint-missing": _note(
        "There is no checkpoint of recovery points.",
        "Nothing; the broker writes it again.",
        "After an unclean stop every segment of every partition is recovered, not only the newest.",
    ),
    "checkpoint-stale-entry": _note(
        "A checkpoint lists partitions that are not in its data directory.",
        "Nothing, if they were moved or deleted.",
        "Brokers leave them out when they write it next.",
    ),
    "checkpoint-lacks-partition": _note(
        "A checkpoint does not list partitions that are in its data directory.",
        "Nothing, if they are new.",
        "For a broker their offset is 0: after an unclean stop all their segments are recovered.",
    ),
    "checkpoint-beyond-end": _note(
        "A checkpoint names an offset beyond the end of the log.",
        "Compare with a replica, if this is no follower that truncated.",
        "Brokers cut the offset down to the log end; records may be lost at the end of the log.",
    ),
    "log-end-lost": _damage(
        "The log ends before what its broker wrote down when it was stopped cleanly.",
        "Recover the end of the log from a replica.",
        "The broker goes on from the lower end and gives offsets out a second time.",
    ),
    "cleaner-offset": _note(
        "The cleaner's checkpoint lies outside the log.",
        "Nothing; the cleaner starts over from the log start.",
        "None for readers.",
    ),
    "topic-settings-unknown": _note(
        "The settings of topics are unknown, so defaults are assumed.",
        "Give the data directory of the metadata log too, server.properties, or --config.",
        "None for readers; retention and compaction may be other than shown.",
        show=Show.NOTHING,
    ),
    "roll-unexplained": _note(
        "No setting that was stated explains why a segment ended.",
        "Nothing; the topic may have had other settings.",
        "None for readers.",
    ),
    "over-message-limit": _note(
        "A batch is over the limit of its topic or broker.",
        "Nothing; the topic may have had another limit.",
        "Brokers serve it; a leader would refuse to take it again.",
    ),
    "compression-type-differs": _note(
        "Batches are not compressed as compression.type requires.",
        "Nothing if the setting was changed; else find out what writes past the leader.",
        "None for readers.",
    ),
    "timestamp-type-differs": _note(
        "Batches have another timestamp type than message.timestamp.type requires.",
        "Nothing if the setting was changed; else find out what writes past the leader.",
        "Retention and lookups by time use the times as they are stored.",
    ),
    "segment-over-limit": _note(
        "A segment is larger than segment.bytes.",
        "Nothing; the limit may have been lowered since.",
        "None for readers; retention deletes whole segments only.",
        show=Show.NOTHING,
    ),
    "offset-overflow": _note(
        "A segment has offsets that are too far above its base for its indexes.",
        "Upgrade a broker older than 2.0 before its cleaner reaches it; newer ones split it.",
        "Consumers read the records; the end of the segment cannot be indexed.",
    ),
    "index-over-limit": _note(
        "An index is larger than segment.index.bytes.",
        "Nothing; the limit may have been lowered since.",
        "None for readers.",
        show=Show.NOTHING,
    ),
    "record-time-limit": _note(
        "A record's time is further from its append than the settings allow.",
        "Nothing; the topic may have had other limits.",
        "Brokers serve it; retention and rolling by time go by it.",
    ),
    "replay-incomplete": _note(
        "Records of an internal topic that is replayed cannot be read.",
        "Replay another replica, or recover the range from one.",
        "What they said is missing in what is shown, and what they ended may be shown still.",
        show=Show.NOTHING,
    ),
    "replay-compacted": _note(
        "The cleaner took records that say what was earlier.",
        "Nothing; a replica that was cleaned later, or a copy from before, may have them.",
        "None for readers; of the time before, what is shown may not be all.",
        show=Show.NOTHING,
    ),
    "replay-unexplained": _note(
        "Records of an internal topic are of no known type, or not what their type says.",
        "See what lies there with kdump dump; a newer kdump may know the type.",
        "They are left out of what is shown; a broker of that version may know them.",
        show=Show.NOTHING,
    ),
    "replica-not-replayed": _note(
        "Another replica of this partition goes as far or further, and is replayed in its place.",
        "Nothing; name this one alone to replay it.",
        "None for readers.",
        show=Show.NOTHING,
    ),
}

#: A walk's reason for a gap -> what the gap is called, where it is no special case.
GAPS = {entry.gap: code for code, entry in CATALOGUE.items() if entry.gap}
#: A kernel's reason to leave records alone that are not known to be wrong -> what that is called.
UNDECODED = {entry.undecoded: code for code, entry in CATALOGUE.items() if entry.undecoded}
