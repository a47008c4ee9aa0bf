"""Why a kernel stopped: small integers with names.

A kernel never raises on data. It returns what was good, where it stopped, and one of these. Numbers
below 10 say how a walk over whole entries ended; 10 and above say what is wrong inside one entry;
30 and above are set where a codec stream is opened.
"""

from __future__ import annotations

END = 0  # everything was used
FULL = 1  # the output is full; go on from where it stopped
SHORT_TAIL = 2  # 17 bytes or fewer are left: brokers end without a word (S6 step 1)
LENGTH_TOO_SMALL = 3  # a size field below 14: brokers raise (S6 step 3)
CUT_SHORT = 4  # the entry is longer than what is left: brokers end without a word (S6 step 4)
NOT_PLAIN = 5  # decode_run met an entry it must not decode: compressed, flagged, no marker
UNOPENED = 6  # an index entry is due at a wrapper whose first offset is not known (F18)
OFFSET_RANGE = 7  # an offset no index of the segment can hold: brokers split it (R15)
INDEX_FALLS = 8  # an index entry that would not rise: brokers empty the segment (R5)

COUNT_NEGATIVE = 10  # recordsCount below 0 (F25)
RECORD_CUT_SHORT = 11  # a record is longer than what is left of the batch
VARINT_TOO_LONG = 12  # a fifth (tenth) byte that asks for one more (F23)
RECORD_LENGTH = 13  # a record length below 6, the smallest record there is
KEY_LENGTH = 14  # the key runs past its record
VALUE_LENGTH = 15  # the value runs past its record
HEADER_COUNT = 16  # negative, or more headers than bytes left in the record (F24)
HEADER_KEY_LENGTH = 17  # negative, or past the record
HEADER_VALUE_LENGTH = 18  # past the record
RECORD_LENGTH_MISMATCH = 19  # the fields do not end where the record's length says
RECORDS_REMAINING = 20  # bytes behind the last record (F25)
RECORDS_MISSING = 21  # the bytes end between records, before recordsCount is reached (F25)

INNER_SIZE = 22  # an inner message smaller than its own fixed fields (F17)
INNER_COMPRESSED = 23  # an inner message with a codec (F16)
INNER_EMPTY = 24  # a wrapper without a message (F16)
WRAPPER_OFFSET = 25  # a wrapper offset below its last inner offset (F14)
INNER_CUT_SHORT = 26  # bytes left that hold no whole inner message: brokers end silently (F17)

CODEC_FAILED = 30  # the codec stream cannot be read
OVER_LIMIT = 31  # more uncompressed bytes than allowed; not checked, no damage
CODEC_UNKNOWN = 32  # a codec number no version defines
CODEC_MISSING = 33  # the library for the codec is not installed
VALUE_NULL = 34  # a wrapper whose value is null (F16)
ZSTD_IN_LEGACY = 35  # codec 4 in a v0 or v1 wrapper (F16)

NAMES = {
    END: "end",
    FULL: "full",
    SHORT_TAIL: "short-tail",
    LENGTH_TOO_SMALL: "length-too-small",
    CUT_SHORT: "cut-short",
    NOT_PLAIN: "not-plain",
    UNOPENED: "unopened",
    OFFSET_RANGE: "offset-range",
    INDEX_FALLS: "index-falls",
    COUNT_NEGATIVE: "count-negative",
    RECORD_CUT_SHORT: "record-cut-short",
    VARINT_TOO_LONG: "varint-too-long",
    RECORD_LENGTH: "record-length",
    KEY_LENGTH: "key-length",
    VALUE_LENGTH: "value-length",
    HEADER_COUNT: "header-count",
    HEADER_KEY_LENGTH: "header-key-length",
    HEADER_VALUE_LENGTH: "header-value-length",
    RECORD_LENGTH_MISMATCH: "record-length-mismatch",
    RECORDS_REMAINING: "records-remaining",
    RECORDS_MISSING: "records-missing",
    INNER_SIZE: "inner-size",
    INNER_COMPRESSED: "inner-compressed",
    INNER_EMPTY: "inner-empty",
    WRAPPER_OFFSET: "wrapper-offset",
    INNER_CUT_SHORT: "inner-cut-short",
    CODEC_FAILED: "codec-failed",
    OVER_LIMIT: "over-limit",
    CODEC_UNKNOWN: "codec-unknown",
    CODEC_MISSING: "codec-missing",
    VALUE_NULL: "value-null",
    ZSTD_IN_LEGACY: "zstd-in-legacy",
}
