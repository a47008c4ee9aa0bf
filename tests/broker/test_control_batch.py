"""The first record of a control batch, in the usual form and in others near it."""

import struct

from builders import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, batch, control_record, record
from each import each

from kdump import kernels
from kdump.broker.control_batch import Control, read_control
from kdump.kernels import reasons
from kdump.record.frames import Run

TIME = 1_700_000_000_000
VALUE = struct.pack(">hi", 0, 77)
USUAL = control_record(1, VALUE)
HEAD = b"\x20\x00\x00\x00\x08"


def control(*records: bytes, before: int = 0, **fields: object) -> Control:
    given = {"attributes": TRANSACTIONAL | CONTROL, "max_timestamp": TIME + 9, **fields}
    data = bytearray(bytes(before) + batch(records, **given))  # type: ignore[arg-type]
    rows, _, _ = kernels.walk(data, before, len(data), 0, -1, True, 9)
    return read_control(Run(data, rows.position(0) - before, rows), 0)


def changed(at: int, value: int) -> bytes:
    one = bytearray(USUAL)
    one[at] = value
    return bytes(one)


@each(
    ("found", "expected"),
    [
        (control(USUAL), Control(1, 77, TIME)),
        (control(USUAL, before=3), Control(1, 77, TIME)),
        (control(USUAL, attributes=0x30 | LOG_APPEND_TIME), Control(1, 77, TIME + 9)),
        (control(control_record(0, struct.pack(">hi", 0, -5))), Control(0, -5, TIME)),
        (control(control_record(1, VALUE + b"more")), Control(1, 77, TIME)),
        (control(control_record(1, struct.pack(">hi", 0x7FFF, 77))), Control(1, 77, TIME)),
        (control(control_record(1, b"\x7f\xff" + VALUE[2:] + b"more")), Control(1, 77, TIME)),
        (control(control_record(1, struct.pack(">hi", -1, 77))), Control(1, -1, TIME, "value")),
        (control(control_record(1, VALUE[:5])), Control(1, -1, TIME, "short")),
        (control(record(key=b"\0\0\0\1", value=None)), Control(1, -1, TIME, "short")),
        (control(control_record(2, VALUE)), Control(2, -1, TIME)),
        (control(control_record(0x101, VALUE)), Control(0x101, -1, TIME)),
        (control(record(key=b"\0\0\0", value=VALUE)), Control(None, -1, TIME, "key")),
        (control(record(0, 5, b"\0\0\0\1", VALUE)), Control(1, 77, TIME + 5)),
        (control(record(key=b"\0\0\0\1", value=VALUE, headers=[(b"h", b"")])),
         Control(1, 77, TIME)),
        (control(USUAL, USUAL, records_count=2), Control(1, 77, TIME)),
        (control(USUAL, records_count=2), Control(1, 77, TIME)),
        (control(USUAL + b"\0"), Control(None, problem="record", reason=reasons.RECORDS_REMAINING)),
        (control(USUAL[:-1], records_count=1), None),
        (control(changed(16, 2)), None),
        (control(changed(16, 1)), None),
        (control(payload=b"", records_count=0), Control(None)),
        (control(payload=USUAL, records_count=0), Control(None)),
        (control(payload=USUAL, records_count=1, attributes=0x31), None),
    ],
)  # fmt: skip
def test_first_record_gives_the_control_type(found: Control, expected: Control | None) -> None:
    if expected is None:
        assert (found.kind, found.problem) == (None, "record")
        assert found.reason not in (reasons.END, reasons.FULL)
        assert not found.ends_transaction
    else:
        assert found == expected
        assert found.ends_transaction == (found.kind in (0, 1) and not found.problem)
