"""The catalogue of findings: every code kdump can report, once.

A code is a stable word. With it stand how severe it is, what is wrong in one sentence, what that
means for readers, and what to do next. The manual page is held to this list by a test.
"""

from __future__ import annotations

from functools import partial

from kdump.findings.code import Code, Extent, Hides, MisplacedScope, Severity, Show

_note = partial(Code, Severity.NOTE)
_rebuild = partial(Code, Severity.REBUILD)
_damage = partial(Code, Severity.DAMAGE)


def _unframed_code(gap: str, sentence: str, show: Show) -> Code:
    """Make the entry of bytes after which nothing can be framed."""
    return _damage(
        sentence,
        "Move consumers to the offset that the finding names; recover the range from a replica.",
        "No consumer gets past this position without an offset reset; log recovery would "
        "truncate the log here.",
        show=show,
        hides=Hides.BATCHES,
        gap=gap,
    )


_BY_REINDEX = {
    "index": "Rebuild it with kdump reindex --only index, or let the broker recover the segment.",
    "timeindex": "Rebuild it with kdump reindex --only timeindex, or let the broker recover the "
    "segment.",
    "txnindex": "Rebuild it with kdump reindex --only txnindex; log recovery of the segment does "
    "it, too.",
    "leader-epochs": "Rebuild it with kdump reindex --only leader-epochs.",
}


def _by_reindex(only: str, sentence: str, meaning: str) -> Code:
    """Make the entry of a file beside the log that `reindex --only` rebuilds."""
    show = Show.HEX if only in ("index", "timeindex") else Show.ENTRIES
    return _rebuild(sentence, _BY_REINDEX[only], meaning, show=show, reindex=only)


def _dropped_state(sentence: str) -> Code:
    """Make the entry of a producer snapshot that brokers do not believe."""
    remedy = (
        "No action needed: the broker deletes it at the next start and rebuilds it from the log."
    )
    meaning = (
        "No effect on consumers; a broker start that needs the snapshot re-reads part of the log "
        "instead."
    )
    return _rebuild(sentence, remedy, meaning, show=Show.ENTRIES)


CATALOGUE: dict[str, Code] = {
    "crc-mismatch": _damage(
        "The checksum of a batch does not match its bytes.",
        "Look at the batch with dump --hex; move consumers to the offset that the finding names.",
        "Consumers that verify checksums stop here. Brokers serve the batch unchanged; log "
        "recovery would truncate the log here.",
        hides=Hides.BATCHES,
        gap="crc-mismatch",
    ),
    "batch-length": _unframed_code(
        "length-too-small",
        "A length field is below the smallest possible message, so nothing after it can be parsed.",
        Show.RAW,
    ),
    "batch-cut-short": _unframed_code(
        "cut-short",
        "A batch claims more bytes than are left, and valid batches follow it.",
        Show.RAW,
    ),
    "batch-too-small": _unframed_code(
        "batch-too-small", "A batch is shorter than its own header.", Show.HEX
    ),
    "torn-tail": _damage(
        "The last entry of the file is incomplete: a write that did not finish.",
        "No action needed if a broker is running: it may be writing the entry. After an unclean "
        "shutdown, log recovery truncates it.",
        "Consumers receive everything before it.",
        show=Show.RAW,
        hides=Hides.BATCHES,
        ends_log=True,
        gap="short-tail",
    ),
    "tail-being-written": _note(
        "The last entry of an active segment is incomplete, and a broker is writing the file now.",
        "No action needed; run the command again.",
        "No effect on consumers: they receive the entry when it is complete.",
        hides=Hides.BATCHES,
        ends_log=True,
        live=True,
        empty=True,
    ),
    "search-given-up": _damage(
        "Too many bytes of this 0.6 or 0.7 file look like messages, so the rest was not searched.",
        "Recover the rest of the segment from a replica.",
        "Consumers stop where the damage starts; it is not known what is intact after it.",
        show=Show.RAW,
        hides=Hides.BATCHES,
        gap="search-given-up",
    ),
    "preallocated-tail": _note(
        "The file ends in zeros that were preallocated and never written.",
        "No action needed; the broker trims them when it rolls or closes the segment.",
        "No effect on consumers: a broker knows where the data in the file ends.",
        hides=Hides.BATCHES,
        ends_log=True,
        empty=True,
        gap="zeros",
    ),
    "magic-unknown": _damage(
        "The magic byte is not that of a known format.",
        "Look at the bytes with dump --hex; salvage --mend-headers repairs the byte if the "
        "checksum then matches.",
        "Consumers fail at this batch.",
        stops_consumers=True,
        gap="magic-unknown",
    ),
    "codec-unknown": _damage(
        "A batch's attributes specify a compression codec that does not exist in this format.",
        "Look at the bytes with dump --hex.",
        "Consumers fail when they decompress the batch; brokers serve it unchanged.",
        hides=Hides.RECORDS,
        stops_consumers=True,
    ),
    "attributes-reserved": _note(
        "A batch has attribute bits set that have no meaning in any version of Kafka.",
        "Find out what wrote it; look at the batch with dump --hex.",
        "No effect on current consumers: they ignore these bits.",
    ),
    "offset-not-rising": _damage(
        "Offsets do not increase from batch to batch.",
        "Compare with a replica, and recover the partition from one that is in order.",
        "Consumers may see records twice or out of order; offset lookups may skip them.",
        misplaced=MisplacedScope.FOR_GOOD,
        offsets_lie=True,
    ),
    "offset-below-base": _damage(
        "The first batch of a segment starts below the base offset in the file's name.",
        "Compare with a replica, and recover the partition from one that is in order.",
        "Consumers never receive these records: the broker looks for their offsets in an earlier "
        "segment.",
        misplaced=MisplacedScope.FOR_GOOD,
        offsets_lie=True,
    ),
    "offset-past-next": _damage(
        "The offsets of a batch overlap those of the next segment.",
        "Compare with a replica, and recover the partition from one that is in order.",
        "Consumers may miss records, or receive records twice.",
        misplaced=MisplacedScope.UNTIL_NEXT,
        offsets_lie=True,
    ),
    "offset-past-range": _damage(
        "The offset of a batch in the newest segment is too far above the base offset to be "
        "indexed.",
        "Do not trust this offset: the checksum does not cover it. Compare with a replica; the "
        "records are intact.",
        "Offset lookups never reach these records.",
        misplaced=MisplacedScope.UNTIL_NEXT,
        offsets_lie=True,
    ),
    "log-end-astray": _damage(
        "The last batch of the log has an offset that cannot be right.",
        "Do not start a broker on it. In a copy, do one of two things: write the right offset "
        "over the first eight bytes of the batch (big-endian; the checksum does not cover them); "
        "or truncate the log where the batch starts and remove .kafka_cleanshutdown. Removing "
        ".kafka_cleanshutdown alone does not help: recovery keeps the batch and its offset, or "
        "fails.",
        "A broker start uses the wrong offset as the log end: new records get offsets from there "
        "on, and followers copy them.",
        show=Show.NOTHING,
        misplaced=MisplacedScope.FOR_GOOD,
        loudest=True,
    ),
    "zero-tail": _damage(
        "The segment ends in zeros, although it is not preallocated.",
        "If this is the newest segment, log recovery truncates the zeros; if not, replace the "
        "segment with a replica's copy.",
        "Consumers fail at the zeros, and none gets past them without an offset reset.",
        show=Show.NOTHING,
        hides=Hides.BATCHES,
        empty=True,
    ),
    "batch-count": _damage(
        "The record count or the last offset delta in the header cannot be right.",
        "Look at the batch with dump --hex.",
        "Consumers fail at this batch, or receive a different number of records than were written.",
        stops_consumers=True,
    ),
    "records-undecodable": _damage(
        "The checksum is right, but the records inside cannot be decoded to the end.",
        "Reset stuck groups to the offset that the finding names. The batch was written like "
        "this, so replicas have it, too.",
        "Most consumers fail inside this batch. Brokers serve it unchanged.",
        hides=Hides.RECORDS,
        stops_consumers=True,
    ),
    "record-offset": _damage(
        "An offset inside a batch is outside the range of the batch, or does not increase.",
        "Look at the batch with dump --batches and find what wrote it; replicas have it, too.",
        "Consumers receive offsets that belong to other records, or that do not increase: they "
        "may see records twice or out of order.",
        offsets_lie=True,
    ),
    "wrapper-offset": _damage(
        "The offset of a compressed wrapper does not match the messages inside.",
        "Compare with a replica: if its offset differs, one of the two was changed later.",
        "With magic 1, consumers compute wrong offsets for the messages inside. With magic 0,"
        " messages have their own offsets, but a broker's lookup uses the wrapper's.",
        offsets_lie=True,
    ),
    "batch-max-timestamp": _damage(
        "The largest timestamp in a batch's header is not that of its records.",
        "Look at the batch with dump --batches: it was written like this, so replicas have "
        "it, too.",
        "Time lookups and retention use the time in the header.",
    ),
    "null-key": _note(
        "Records of a compacted topic have no key.",
        "No action needed if the topic itself is not compacted; otherwise set a key in the "
        "producer.",
        "The log cleaner drops records without a key.",
    ),
    "slack-bytes": _note(
        "Messages of magic 0 or 1 have extra bytes after their value.",
        "No action needed; every consumer ignores them.",
        "No effect on consumers.",
    ),
    "inner-crc-mismatch": _damage(
        "The checksum of a message inside a compressed wrapper is wrong.",
        "kdump dump shows the messages and marks this one; move consumers to the offset "
        "that the finding names.",
        "Consumers that verify checksums stop at this message, and do not receive the "
        "messages after it in the wrapper.",
    ),
    "inner-cut-short": _note(
        "A compressed message, once decompressed, ends in a partial message, which brokers ignore.",
        "No action needed; no consumer sees the partial message.",
        "No effect on consumers.",
        hides=Hides.RECORDS,
        undecoded="inner-cut-short",
    ),
    "over-decompress-limit": _note(
        "A batch decompresses to more bytes than --decompress-limit, so it was skipped.",
        "Raise --decompress-limit to read it.",
        "The effect is unknown: the batch was not decompressed.",
        hides=Hides.RECORDS,
        undecoded="over-limit",
    ),
    "codec-missing": _note(
        "The library for this codec is not installed, so the records were skipped.",
        "Install the library.",
        "The effect is unknown: the batch was not decompressed.",
        hides=Hides.RECORDS,
        undecoded="codec-missing",
    ),
    "decoder-ended": _note(
        "The --decoder program ended or did not answer in time, and was not used again.",
        "Run it by hand on its last input; --decoder-timeout gives it more time.",
        "No effect on consumers: keys and values from there on are shown undecoded.",
    ),
    "control-record": _damage(
        "The key or value of a control record does not match its type.",
        "Look at the batch with dump --hex.",
        "The outcome of a transaction cannot be read from this marker.",
    ),
    "unreadable": _damage(
        "The device returned an I/O error for this range of the file.",
        "Copy the file with a rescue tool; recover the range from a replica.",
        "A broker that gets the same error takes the whole data directory offline.",
        hides=Hides.BATCHES,
    ),
    "file-shrank": _note(
        "The file became shorter while it was read; a running broker truncates and deletes files.",
        "No action needed; run the command again.",
        "No effect, if a broker is running on the directory.",
        extent=Extent.TO_THE_END,
        ends_log=True,
        live=True,
    ),
    "internal-error": _damage(
        "kdump failed on this partition or directory.",
        "Report it with the traceback that KDUMP_TRACEBACK=1 prints; meanwhile use another command "
        "or a replica.",
        "Findings reported before it are valid, but the rest of this partition or directory was "
        "not checked. Damaged files are the most frequent cause.",
        show=Show.NOTHING,
    ),
    "file-vanished": _note(
        "The file existed when the directory was listed, and is gone now; retention deletes files.",
        "No action needed; run the command again.",
        "No effect, if a broker is running on the directory.",
        extent=Extent.FILE,
        live=True,
    ),
    "partition-changing": _note(
        "Files were replaced each time the partition was read, so it could not be checked.",
        "Run the command again when the broker is less busy.",
        "Errors found in it would not be reliable: an old index may be next to a new log.",
        live=True,
    ),
    "high-watermark-unknown": _note(
        "The high watermark is not on disk or is older than the data, so the log end is used "
        "instead.",
        "No action needed; records above the true high watermark may be shown.",
        "The output may contain records that consumers do not receive yet.",
    ),
    "log-start-unknown": _note(
        "The checkpoint of log start offsets cannot be read, so the base offset of the first "
        "segment is used instead.",
        "No action needed; records below the true log start offset may be shown.",
        "The output may contain records that consumers no longer receive.",
    ),
    "last-stable-offset": _note(
        "The disk does not show all open transactions, so the last stable offset is an estimate.",
        "Ask the broker if it matters.",
        "read_committed consumers may receive more or less than is shown.",
    ),
    "read-committed-stops": _note(
        "read_committed consumers stop before an open transaction.",
        "Run kdump verify: it reports whether the transaction is hanging, and the command that "
        "ends it.",
        "They receive the records after it only when the transaction ends.",
    ),
    "cleaned-key-twice": _note(
        "Two records of one key are below the cleaner's checkpoint, where only the last one "
        "should be.",
        "Stop the broker, remove the partition's line from cleaner-offset-checkpoint, and "
        "lower the count in its second line: the next compaction begins at the log start.",
        "A compaction missed them, or the log or the checkpoint belongs to another broker. "
        "Consumers receive the older value before the newer one.",
    ),
    "directory-name": _note(
        "The directory's name is not a topic and partition.",
        "No action needed if it is not a partition.",
        "A broker does not start if the name of a directory is not valid.",
    ),
    "topic-name": _note(
        "The topic has a name that Kafka does not allow, so it is left out of the reset plan.",
        "No action needed; no broker created this directory.",
        "Brokers load such a directory, but no client can use the topic.",
    ),
    "file-not-held": _note(
        "A file of a copy cannot be kept open during the salvage.",
        "Raise the limit of open files (ulimit -n), or salvage from a copy of the directory made "
        "with hard links (cp -al).",
        "If a broker deletes the file before it is read, its records are missing from the result.",
    ),
    "source-is-target": _note(
        "This directory belongs to the target cluster itself, so it is not used as a source.",
        "No action needed unless records are missing: then name a directory with other copies.",
        "Produced records arrive in this directory.",
    ),
    "produced-short": _damage(
        "Fewer records were produced than planned.",
        "Run the same command again, with paths that still have all copies.",
        "The partition is not marked as done, and its groups get no offsets.",
        show=Show.NOTHING,
    ),
    "pre08-gap": _damage(
        "There is a gap between 0.7 segments: one does not start where the one before it ends.",
        "Find the missing file, in a backup or on another volume.",
        "A 0.7 broker does not start while the gap exists; consumers cannot get from one segment "
        "to the other.",
    ),
    "offset-index-size": _by_reindex(
        "index",
        "The size of the offset index is not a multiple of the entry size.",
        "Log recovery rebuilds it; until then the broker ignores the incomplete entry at the end.",
    ),
    "offset-index-order": _by_reindex(
        "index",
        "The entries of the offset index do not increase.",
        "A fetch may start too far back, or too far ahead and miss records.",
    ),
    "log-too-short": _damage(
        "The indexes of a segment refer to batches after the end of its log.",
        "Recover the segment from a replica.",
        "The segment's records after the end of the file are gone.",
        show=Show.NOTHING,
        extent=Extent.TO_THE_END,
    ),
    "offset-index-missing": _rebuild(
        "A segment has no offset index.",
        "No action needed: the next start rebuilds both indexes. kdump reindex --only "
        "index,timeindex does it before the start.",
        "A broker start rebuilds it, which reads the whole segment.",
        reindex="index,timeindex",
    ),
    "offset-index-empty": _note(
        "The offset index of a sealed segment is empty, although its log is long enough for "
        "entries.",
        "No action needed: lookups are right but scan the log from its start; reindex makes them "
        "fast.",
        "A fetch reads the segment from its start.",
    ),
    "offset-index-position": _by_reindex(
        "index",
        "An entry of the offset index names a position where no batch starts.",
        "A fetch that uses the entry starts inside a batch, and fails or returns nothing.",
    ),
    "offset-index-offset": _by_reindex(
        "index",
        "An entry of the offset index names an offset that is not at its position.",
        "A fetch that uses the entry may start too far ahead and miss records.",
    ),
    "offset-index-zeros": _by_reindex(
        "index",
        "The offset index of a segment that is not the newest ends in zeros.",
        "A fetch whose index lookup reaches the zeros reads the segment from its start, "
        "which is slow.",
    ),
    "offset-index-stale": _note(
        "A preallocated offset index has old entries after its last valid one, left by a "
        "truncation.",
        "No action needed; the broker ignores them.",
        "No effect on consumers.",
    ),
    "time-index-size": _by_reindex(
        "timeindex",
        "The size of the time index is not a multiple of the entry size.",
        "Log recovery rebuilds it; until then the broker ignores the incomplete entry at the end.",
    ),
    "time-index-order": _by_reindex(
        "timeindex",
        "The entries of the time index do not increase.",
        "Time lookups may return a wrong offset.",
    ),
    "time-index-missing": _rebuild(
        "A segment has no time index, although its neighbors have one.",
        "Rebuild it with kdump reindex --only timeindex before a broker start, which creates an "
        "empty one.",
        "Time lookups may skip the segment.",
        reindex="timeindex",
    ),
    "time-index-offset": _by_reindex(
        "timeindex",
        "An entry of the time index leads a lookup past a record that it should find.",
        "Time lookups may miss records.",
    ),
    "time-index-entry": _by_reindex(
        "timeindex",
        "An entry of the time index has a time that is not the time at its offset.",
        "Time lookups may return a wrong offset.",
    ),
    "time-index-last": _by_reindex(
        "timeindex",
        "The last entry of the time index is not the largest time of its segment.",
        "Time lookups choose the wrong segment; time-based retention uses this entry, too, and may "
        "delete the segment too early or too late.",
    ),
    "time-index-zeros": _by_reindex(
        "timeindex",
        "The time index of a segment that is not the newest ends in zeros.",
        "Time lookups may return a wrong offset; time-based retention uses the last entry, and may "
        "delete the segment too early.",
    ),
    "time-index-stale": _note(
        "A preallocated time index has old entries after its last valid one, left by a truncation.",
        "No action needed; the broker ignores them.",
        "No effect on consumers.",
    ),
    "offset-lookup-differs": _by_reindex(
        "index",
        "The offset index leads a fetch to a different record than a scan of the log.",
        "A consumer that seeks there receives the wrong records.",
    ),
    "time-lookup-differs": _rebuild(
        "The indexes lead a time lookup to a different record than a scan of the log.",
        "Rebuild them with kdump reindex --only index,timeindex, or let the broker recover the "
        "segment.",
        "A consumer that seeks to this time starts at the wrong record.",
        reindex="index,timeindex",
    ),
    "time-lookup-passes-over": _note(
        "By its own rules, a broker answers a time lookup differently than a scan of the log "
        "would.",
        "No action needed; the indexes are sound. To get the record, seek to scan_offset.",
        "A consumer that seeks to this time gets the answer that every broker gives.",
    ),
    "transaction-index-size": _rebuild(
        "The transaction index ends in a partial entry.",
        "No action needed now; log recovery of the segment rewrites it, and so does kdump reindex "
        "--only txnindex.",
        "No effect: brokers ignore the partial entry.",
        show=Show.ENTRIES,
        reindex="txnindex",
    ),
    "transaction-index-version": _by_reindex(
        "txnindex",
        "An entry of the transaction index has a version that even the newest brokers do not read.",
        "read_committed fetches from this segment fail. A broker start fails, too, unless it "
        "recovers the segment.",
    ),
    "transaction-index-order": _by_reindex(
        "txnindex",
        "The entries of the transaction index do not increase.",
        "A read_committed consumer may receive aborted records.",
    ),
    "transaction-index-marker": _by_reindex(
        "txnindex",
        "An entry of the transaction index does not match an ABORT marker of its producer.",
        "read_committed consumers skip all records of the entry's producer up to its next ABORT "
        "marker, committed ones too.",
    ),
    "transaction-index-first-offset": _by_reindex(
        "txnindex",
        "The first offset in a transaction index entry is not where the transaction starts in"
        " the log.",
        "read_committed consumers receive aborted records, or miss committed ones.",
    ),
    "transaction-index-stable-offset": _by_reindex(
        "txnindex",
        "The last stable offset in a transaction index entry contradicts the log.",
        "A broker may stop searching this index too early: read_committed consumers then receive "
        "aborted records.",
    ),
    "transaction-index-missing": _rebuild(
        "Aborted transactions of a segment have no entry in its transaction index.",
        "Rebuild it with kdump reindex --only txnindex; a broker does so only when it "
        "recovers the segment.",
        "read_committed consumers receive these aborted records.",
        show=Show.ENTRIES,
        reindex="txnindex",
    ),
    "transaction-open": _note(
        "A transaction has no marker yet.",
        "No action needed while its producer is active.",
        "read_committed consumers wait at the first offset of the earliest open transaction.",
    ),
    "transaction-hanging": _damage(
        "A transaction has no marker and will never get one: no coordinator knows it, or it "
        "is too old.",
        "On a running cluster: kafka-transactions.sh --bootstrap-server BOOTSTRAP abort "
        "--topic TOPIC --partition PARTITION --start-offset OFFSET",
        "Until it is aborted, neither read_committed consumers nor compaction get past its first "
        "offset.",
        blocks_committed=True,
    ),
    "transaction-mixed": _damage(
        "A producer's batch is not transactional, although a transaction of that producer is open.",
        "Look at the batch with dump --hex, and at others of its producer with dump --batches "
        "--producer-id; compare with a replica.",
        "Consumers receive the records; a broker that replays the log fails to load it.",
    ),
    "control-type-unknown": _note(
        "A control record has a type that no broker knows.",
        "Look at the batch with dump --hex.",
        "Consumers ignore it.",
    ),
    "control-count": _note(
        "The batch of a transaction marker contains more than one record.",
        "Look at the batch with dump --hex.",
        "Brokers and consumers use the first record only.",
    ),
    "sequence-duplicate": _note(
        "Sequence numbers of a producer appear in the log twice.",
        "Compare both batches with dump --producer-id.",
        "Consumers may receive the same records twice.",
    ),
    "sequence-gap": _note(
        "A producer's sequence numbers have a gap, but the offsets have none.",
        "Compare both batches with dump --producer-id; ask the producer's owner.",
        "Records that the producer sent may never have been stored.",
    ),
    "producers-not-checked": _note(
        "Too many transactions are open at once, so some producers were not checked to the end of "
        "the log.",
        "No action needed; sequences, snapshots, and transaction indexes of these producers were "
        "not checked.",
        "The effect is unknown for these producers.",
    ),
    "snapshot-size": _dropped_state(
        "A producer snapshot is shorter or longer than its entry count requires."
    ),
    "snapshot-version": _dropped_state("A producer snapshot has a version that no broker reads."),
    "snapshot-crc": _dropped_state("The checksum of a producer snapshot is wrong."),
    "snapshot-differs": _rebuild(
        "A producer snapshot contradicts the log below its offset.",
        "After an unclean shutdown, move the snapshot away before the start; the broker then "
        "replays the log from an older one.",
        "A broker that loads this snapshot may reject a producer, store records twice, or block "
        "read_committed consumers.",
        show=Show.ENTRIES,
    ),
    "snapshot-stray": _note(
        "The offset of a producer snapshot is below the first segment or above the log end.",
        "No action needed; the next start deletes it.",
        "No broker reads it.",
    ),
    "snapshot-missing": _note(
        "Idempotent producers wrote to earlier segments, but there is no producer snapshot.",
        "After a clean shutdown, remove .kafka_cleanshutdown before the start, so that the broker "
        "reads the producers from the log.",
        "After a clean shutdown, the broker starts without knowledge of any producer or open "
        "transaction.",
    ),
    "leader-epoch-odd": _damage(
        "The leader epoch of a batch does not fit its place in the log.",
        "Compare with a replica; the records are intact, and dump shows them.",
        "Consumers and followers that compare epochs with the leader may see a diverged log: "
        "consumers may stop, and followers may truncate.",
    ),
    "leader-epoch-falls": _note(
        "A batch has a lower leader epoch than the batch before it.",
        "Compare with a replica.",
        "No broker writes such a log: the file was edited, or its parts come from different logs.",
    ),
    "leader-epochs-order": _by_reindex(
        "leader-epochs",
        "The epochs or start offsets in the leader epoch checkpoint do not increase.",
        "A broker drops the earlier entries; a follower may truncate too much or too little.",
    ),
    "leader-epochs-start": _by_reindex(
        "leader-epochs",
        "An epoch starts at a different offset in the leader epoch checkpoint than in the log.",
        "A follower that asks for the end of the epoch may truncate too much or too little.",
    ),
    "leader-epochs-missing": _rebuild(
        "The leader epoch checkpoint lacks an epoch that the log contains.",
        "Rebuild it with kdump reindex --only leader-epochs; recovery of all segments does "
        "it, too.",
        "Followers may then truncate to the high watermark instead of to the end of an epoch, and "
        "keep records that the leader does not have.",
        show=Show.ENTRIES,
        reindex="leader-epochs",
    ),
    "checkpoint-malformed": _rebuild(
        "A checkpoint file is malformed.",
        "Restore it, or delete it before a broker start if the broker can do without it.",
        "A broker ignores the whole file, or fails.",
        show=Show.ENTRIES,
    ),
    "properties-malformed": _rebuild(
        "A properties or JSON file is malformed.",
        "Restore it from another directory of the same broker.",
        "A broker may fail to start, or to load the partition.",
        show=Show.ENTRIES,
    ),
    # What `predict` foretells.
    "start-loses-records": _damage(
        "The next start of the broker would lose records.",
        "Copy the directory before any broker start. If another replica is sound, then "
        "delete the original directory before the start; the broker fetches the partition again.",
        "Consumers no longer receive these records, and new records may reuse their offsets.",
        forecast=True,
    ),
    "start-refused": _damage(
        "The next start of the broker would fail.",
        "Remove the cause before the next start. If a single partition is the cause, moving its "
        "directory out of the data directory is enough.",
        "The broker, and every partition on it, stays offline.",
        forecast=True,
    ),
    # Files and directories by their names, and what only all of them together show.
    "log-name": _damage(
        "The name of a log does not have twenty digits; brokers do not open it.",
        "Stop the broker and rename the file to the expected name; if a broker start has created "
        "an empty file of that name, remove that first.",
        "A broker start creates an empty segment in its place: no consumer sees these records.",
    ),
    "file-name": _note(
        "The name of a segment's file does not have twenty digits.",
        "Rename it to the expected name, or remove it.",
        "A broker ignores the file, and continues as if it did not exist.",
    ),
    "file-stops-start": _rebuild(
        "A file has the extension of a segment file, but its name does not begin with a number.",
        "Move the file out of the directory before the next start.",
        "A broker fails when it loads the partition, and may not start at all.",
    ),
    "file-unknown": _note(
        "A file or directory has a name that brokers do not know.",
        "Leave it, or move it elsewhere.",
        "Brokers ignore it.",
    ),
    "file-access": _rebuild(
        "The user who owns most files here cannot open a file that a broker needs.",
        "Give the file to the broker's user (chown, chmod) before the next start.",
        "A broker start fails here, or takes the data directory offline; the records are intact.",
    ),
    "index-without-log": _note(
        "A segment has indexes but no log.",
        "No action needed; a broker start removes them. If the log should exist, look for it.",
        "No consumer uses them.",
    ),
    "leftover": _note(
        "Files of an unfinished operation, or files that wait for deletion, are left over.",
        "No action needed; a broker start removes or ignores them.",
        "No effect on consumers: brokers do not serve these files.",
    ),
    "reindex-unfinished": _note(
        "A rebuild by kdump did not finish.",
        "Run reindex again, or remove the file.",
        "Brokers ignore the unfinished file; the file to be replaced is still in place.",
    ),
    "swap-left": _note(
        "Replacement segments (.swap) were not put in place.",
        "No action needed; the next start puts them in place.",
        "Until the next start, consumers do not read these files.",
    ),
    "segments-apart": _note(
        "Offsets are missing between two segments, and compaction may have removed them.",
        "If this topic was never compacted, recover them from a replica. To find out, add "
        "--server-properties or the data directory with the metadata log.",
        "Consumers skip the missing offsets silently, and brokers do not notice.",
    ),
    "offsets-apart": _note(
        "Offsets are missing between two batches of a segment, and the topic is not compacted.",
        "Compare with a replica (kdump compare). Harmless if the topic was compacted before, or if "
        "this replica was a follower that truncated its log inside a batch.",
        "Consumers skip the missing offsets silently, and brokers do not notice.",
    ),
    "segment-missing": _damage(
        "A segment is missing from a log.",
        "Recover the segment from a replica or a backup.",
        "Consumers skip the missing offsets silently, and brokers do not notice.",
        show=Show.NOTHING,
        passed_over=True,
    ),
    "partition-empty": _note(
        "A partition's directory contains no segment.",
        "No action needed if the partition is new.",
        "A broker that loads it creates an empty segment at the log start offset.",
    ),
    "directory-retired": _note(
        "The directory is a replica that is being moved or deleted, or that was renamed to -stray.",
        "No action needed; the broker finishes the move or the deletion.",
        "No consumer reads from it.",
    ),
    "directory-stops-start": _rebuild(
        "A directory next to the partitions has a name that is not TOPIC-PARTITION.",
        "Move it out of the data directory before the next start. If it is lost+found, which "
        "belongs to the file system, create a directory below the mount point, move everything "
        "else into it, and set log.dirs to it.",
        "A broker with this directory does not start; the records are intact.",
    ),
    "partition-twice": _rebuild(
        "Two data directories of one broker contain the same partition.",
        "Compare the two, and move the one with the lower log end out of its data directory.",
        "A broker with both does not start.",
    ),
    "partition-missing": _damage(
        "The cluster metadata log places a partition here, but no data directory has it.",
        "Restore the directory, or let the broker fetch the partition from its leader.",
        "A broker start creates it empty; if this was the only replica, its records are lost.",
    ),
    "partition-metadata-missing": _rebuild(
        "A partition has no partition.metadata, which contains its topic id.",
        "Before the next start, write the file again. Its two lines are `version: 0` and "
        "`topic_id: ID`, where ID is in the partition.metadata of the topic's other partitions or "
        "replicas.",
        "From 3.7 on, a broker start renames the directory to -stray and creates an empty "
        "partition.",
    ),
    "topic-id-differs": _damage(
        "A partition has a different topic id than the rest of its topic, or than the cluster.",
        "Before the next start, find out which topic id is right. If the "
        "directory belongs to a deleted topic of the same name, copy it elsewhere. If the file is "
        "wrong, correct the topic id in partition.metadata.",
        "From 3.7 on, a broker start renames the directory to -stray and creates an empty "
        "partition; earlier brokers do not serve the partition.",
        show=Show.NOTHING,
    ),
    "topic-unknown": _note(
        "The cluster metadata log has no partition with this topic id and number.",
        "No action needed if the topic was deleted while the broker was down.",
        "From 3.7 on, a broker start renames the directory to -stray.",
    ),
    "replica-not-assigned": _note(
        "The cluster metadata log assigns the partition to other brokers.",
        "No action needed if it was moved away while the broker was down.",
        "From 3.7 on, a broker start renames the directory to -stray.",
    ),
    "meta-properties-differ": _rebuild(
        "The meta.properties files of one broker's data directories do not agree.",
        "If one of the directories belongs to another broker, remove it from log.dirs; otherwise "
        "correct the file that is wrong.",
        "A broker with these files does not start.",
    ),
    "meta-properties-missing": _damage(
        "A data directory of a KRaft broker has no meta.properties.",
        "If the volume is not mounted, mount it. Otherwise write the file again before the next "
        "start, with the cluster.id and version of the other directories or "
        "nodes, and this node's own node.id.",
        "KRaft nodes do not start without it.",
    ),
    "meta-properties-malformed": _damage(
        "A meta.properties file is malformed, or names no node.",
        "Write the file again before the next start, with the cluster.id and version of the other "
        "directories or nodes, and this node's own node.id.",
        "A broker with this file does not start, or starts with this data directory offline.",
        show=Show.ENTRIES,
    ),
    "meta-properties-foreign": _damage(
        "A meta.properties file names another node or cluster than the rest of its data directory.",
        "Find out which node the volume belongs to, and mount it there. If only the file is wrong, "
        "restore it.",
        "A broker with this file does not start.",
    ),
    "bootstrap-checkpoint-malformed": _damage(
        "bootstrap.checkpoint has a damaged batch.",
        "If __cluster_metadata-0 has a log, move the file away: only the first start of a cluster "
        "needs it. Otherwise restore it from another node, or format the node again.",
        "KRaft nodes from 3.3 on do not start when they find no metadata.version in it.",
        show=Show.NOTHING,
    ),
    "metadata-snapshot-missing": _damage(
        "The cluster metadata log begins above offset 0, and no snapshot covers the offsets below.",
        "Restore the snapshot: copy it from another controller, or from a backup.",
        "The node does not start without the metadata below the log start offset.",
    ),
    "metadata-snapshot-incomplete": _damage(
        "A snapshot of the cluster metadata lacks its first or last record.",
        "If an older snapshot and the log after it are intact, remove this snapshot before a "
        "broker start.",
        "The node cannot load it.",
    ),
    "metadata-snapshot-damaged": _damage(
        "A snapshot of the cluster metadata contains bytes that are not a sound batch.",
        "If an older snapshot and the log after it are intact, remove this snapshot before a "
        "broker start. Otherwise replace it with the file of another controller, or remove it and "
        "let the node fetch one.",
        "The node fails when it loads the snapshot; no consumer reads it.",
        show=Show.NOTHING,
    ),
    "metadata-records-missing": _damage(
        "Records of the cluster metadata log cannot be read.",
        "Copy the partition directory from another controller, or let the node fetch it again.",
        "Their changes to topics, configs, or leaders are unknown, unless a later snapshot "
        "has them. A node cannot replay its log past them.",
        show=Show.NOTHING,
    ),
    "checkpoint-missing": _note(
        "There is no checkpoint of recovery points.",
        "No action needed; the broker writes it again.",
        "After an unclean shutdown, every segment of every partition is recovered, not only those "
        "above a recovery point.",
    ),
    "checkpoint-stale-entry": _note(
        "A checkpoint lists partitions that are not in its data directory.",
        "No action needed if they were moved or deleted.",
        "Brokers drop these entries when they next write the file.",
    ),
    "checkpoint-lacks-partition": _note(
        "A checkpoint does not list partitions that are in its data directory.",
        "No action needed if they are new.",
        "A broker uses offset 0 for the partition instead.",
    ),
    "checkpoint-beyond-end": _note(
        "A checkpoint has an offset beyond the end of the log.",
        "Compare with a replica, unless this is a follower that truncated.",
        "Brokers use the log end instead; records may have been lost at the end of the log.",
    ),
    "log-end-lost": _damage(
        "The log ends before the offset that its broker recorded at a clean shutdown.",
        "Recover the end of the log from a replica.",
        "The broker continues at the lower offset, and assigns the offsets from there on again.",
    ),
    "cleaner-offset": _note(
        "The cleaner's checkpoint is outside the log.",
        "No action needed; the cleaner starts over from the log start.",
        "No effect on consumers.",
    ),
    "topic-settings-unknown": _note(
        "The topic configs are unknown, so defaults are assumed.",
        "Add the data directory of the metadata log, server.properties, or --config.",
        "No effect on consumers; retention and compaction may differ from what is shown.",
        show=Show.NOTHING,
    ),
    "roll-unexplained": _note(
        "No known setting explains why a segment was rolled.",
        "No action needed; the topic may have had other settings.",
        "No effect on consumers.",
    ),
    "over-message-limit": _note(
        "A batch is larger than the limit of its topic or broker.",
        "No action needed; the topic may have had another limit.",
        "Brokers serve such batches, but a leader would no longer accept them from a producer.",
    ),
    "compression-type-differs": _note(
        "Batches are not compressed as compression.type requires.",
        "No action needed if the setting was changed; otherwise, find out what wrote them instead "
        "of the leader.",
        "No effect on consumers.",
    ),
    "timestamp-type-differs": _note(
        "Batches have a different timestamp type than message.timestamp.type requires.",
        "No action needed if the setting was changed; otherwise, find out what wrote them instead "
        "of the leader.",
        "Retention and time lookups use the timestamps as they are stored.",
    ),
    "segment-over-limit": _note(
        "A segment is larger than segment.bytes.",
        "No action needed; the limit may have been lowered since.",
        "No effect on consumers; retention deletes whole segments, so it may keep records longer.",
        show=Show.NOTHING,
    ),
    "offset-overflow": _note(
        "A segment has offsets that are too far above its base offset to be indexed.",
        "Upgrade a broker older than 2.0 before its cleaner reaches it; newer ones split it.",
        "Consumers receive the records; the end of the segment cannot be indexed.",
    ),
    "index-over-limit": _note(
        "An index is larger than segment.index.bytes.",
        "No action needed; the limit may have been lowered since.",
        "No effect on consumers.",
        show=Show.NOTHING,
    ),
    "record-time-limit": _note(
        "The timestamp of a record is further from its append time than the settings allow.",
        "No action needed; the topic may have had other limits.",
        "Brokers serve such records; time-based retention and rolling use their timestamps.",
    ),
    "replay-incomplete": _note(
        "Records of an internal topic that is replayed cannot be read.",
        "Replay another replica, or recover the range from one.",
        "Their changes are missing from the output, and members or transactions that they ended "
        "may still be shown.",
        show=Show.NOTHING,
    ),
    "replay-compacted": _note(
        "Compaction removed records with earlier states.",
        "No action needed; a replica that was compacted later, or an earlier copy, may have them.",
        "No effect on consumers; earlier states may be incomplete.",
        show=Show.NOTHING,
    ),
    "file-times-lost": _note(
        "The times of the files were lost when the directory was copied.",
        "No action needed; make a copy that keeps times (cp -a, rsync -a, tar) to learn more.",
        "Events known only from file times have no time, and clock differences are estimated from "
        "records only.",
        show=Show.NOTHING,
    ),
    "replay-unexplained": _note(
        "Records of an internal topic have an unknown type, or do not match their type.",
        "Look at them with kdump dump; a newer kdump may know the type.",
        "They are left out of the output; a broker of that version may know them.",
        show=Show.NOTHING,
    ),
    "replica-not-replayed": _note(
        "Another replica of this partition is at least as complete, and is replayed instead.",
        "No action needed; to replay this one, name only its path.",
        "No effect on consumers.",
        show=Show.NOTHING,
    ),
    "remote-not-given": _note(
        "Records that consumers receive are in remote storage only, which was not given.",
        "Name the remote storage with --tier.",
        "No effect on consumers: the broker reads them from there.",
        show=Show.NOTHING,
    ),
    "remote-missing": _damage(
        "An object of a finished remote segment is missing.",
        "Restore the object from a backup or an older version of the bucket.",
        "Consumers stop at the segment's first offset, unless the local log has its records.",
        show=Show.NOTHING,
    ),
    "remote-object-size": _damage(
        "A log object in remote storage does not have the size recorded in the metadata.",
        "Restore the object, or rebuild the partition with kdump salvage --tier.",
        "Consumers skip the records that a truncated object lacks, without an error.",
        show=Show.NOTHING,
    ),
    "remote-object-differs": _damage(
        "A log object in remote storage has different offsets than recorded in the metadata.",
        "Restore the object; another segment may have been stored under its name.",
        "Consumers skip the records that it lacks, without an error.",
        show=Show.NOTHING,
    ),
    "remote-index-invalid": _damage(
        "An index object in remote storage is damaged.",
        "Restore the object; the log object is intact, and kdump salvage --tier reads it.",
        "Consumers stop at the segment's first offset, unless the broker has the index cached.",
        show=Show.NOTHING,
    ),
    "remote-epochs-differ": _note(
        "The leader epoch object of a remote segment differs from the metadata.",
        "No action needed; restore the object before a replica is rebuilt from remote storage.",
        "No effect on consumers: a leader does not read it.",
        show=Show.NOTHING,
    ),
    "remote-gap": _damage(
        "Offsets between the log start and the local log are in no remote segment.",
        "Restore __remote_log_metadata, or rebuild the partition with kdump salvage --tier.",
        "Consumers get OffsetOutOfRange in the middle of the log; a reset to earliest leads them "
        "to the same gap again.",
        show=Show.NOTHING,
    ),
    "remote-overlap": _note(
        "A finished remote segment overlaps another one.",
        "No action needed; after an unclean election this is normal.",
        "No effect on consumers; brokers do not report it.",
        show=Show.NOTHING,
    ),
    "remote-orphan": _note(
        "Objects in remote storage are in no metadata record.",
        "Delete them, after making sure that no other cluster uses the storage.",
        "No effect on consumers; no broker deletes them, so they cost space forever.",
        show=Show.NOTHING,
    ),
    "remote-manifest-invalid": _damage(
        "The manifest of a remote segment is invalid.",
        "Restore the manifest from a backup or an older version of the bucket.",
        "Brokers cannot find the chunks of the segment: consumers stop at its first offset.",
        show=Show.NOTHING,
    ),
    "remote-not-checked": _note(
        "A remote segment is encrypted: sizes and names were checked, its contents were not.",
        "Give the private key with --tier-key.",
        "No effect on consumers: the broker has the key.",
        show=Show.NOTHING,
    ),
    "frame-length": _damage(
        "The length of a request or a response cannot be right.",
        "Find out which client sent it. kdump continues at the next request that it recognizes.",
        "A broker closes a connection that sends such a length.",
        show=Show.NOTHING,
    ),
    "frame-cut-short": _damage(
        "A request or a response is incomplete.",
        "Capture for longer, or all of the connection.",
        "The effect is unknown: the receiver may have had the rest.",
        show=Show.NOTHING,
    ),
    "frame-malformed": _damage(
        "The fields of a request or a response do not fit its bytes.",
        "Find out which client sent it.",
        "A broker closes the connection, and a client fails.",
        show=Show.NOTHING,
    ),
    "frame-unknown": _note(
        "A request has an API key or a version that no known release has.",
        "No action needed; a newer kdump may know it.",
        "Brokers without that version close the connection.",
        show=Show.NOTHING,
    ),
    "capture-gap": _damage(
        "Bytes of a TCP stream are missing in the capture.",
        "Capture again with a larger buffer (tcpdump -B) and complete packets (tcpdump -s 0).",
        "Only the capture lacks these bytes: the receiver had them.",
        show=Show.NOTHING,
    ),
    "capture-cut-short": _damage(
        "A capture ends in the middle of a packet, or has an impossible length.",
        "No action needed; what comes before it was read.",
        "The effect is unknown: the receiver may have had the rest.",
        show=Show.NOTHING,
    ),
    "capture-skipped": _note(
        "Part of a capture was not read.",
        "No action needed unless you need that part.",
        "No effect on what was read.",
        show=Show.NOTHING,
    ),
    "capture-encrypted": _note(
        "A connection is encrypted, and cannot be read.",
        "Capture on a listener without TLS, or after TLS is terminated.",
        "No effect on what was read.",
        show=Show.NOTHING,
    ),
    "remote-metadata-damaged": _damage(
        "The metadata of remote segments is damaged.",
        "Restore the partition of __remote_log_metadata from a replica.",
        "At each start, brokers stop reading the metadata there: no remote read of these topics "
        "succeeds.",
        show=Show.NOTHING,
    ),
}

#: A walk's reason for a gap -> what the gap is called, where it is no special case.
GAPS = {entry.gap: code for code, entry in CATALOGUE.items() if entry.gap}
#: A kernel's reason to leave records alone that are not known to be wrong -> what that is called.
UNDECODED = {entry.undecoded: code for code, entry in CATALOGUE.items() if entry.undecoded}
