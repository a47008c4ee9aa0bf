"""The schema of rows against the named tuples, the kernels' text and the manual."""

import json
import re
from array import array
from pathlib import Path

import builders

from kdump import kernels
from kdump.findings.rows import MARK_NAMES, PRE08_NAMES, RECORD_NAMES, BatchRow, RecordRow
from kdump.findings.schema import BATCH, MARKS, PRE08, RECORD, SAID
from kdump.kernels import columns as c
from kdump.kernels import reasons
from kdump.output.text_forms import json_form

MAN = Path(__file__).parents[1] / "man" / "kdump-dump.1"


def names(fields: object) -> list[str]:
    return [field.name for field in fields]  # type: ignore[attr-defined]


def test_named_tuples_have_the_members_of_the_schema() -> None:
    assert list(RECORD_NAMES) == names(RECORD)
    assert (list(PRE08_NAMES), list(MARK_NAMES)) == (names(PRE08), names(MARKS))
    assert list(RecordRow._fields) == [*names(RECORD), *names(PRE08), *names(MARKS)]
    assert list(BatchRow._fields) == names(BATCH)


def test_kernel_writes_the_members_of_the_schema_in_order() -> None:
    data = builders.batch([builders.record(0, 0, b"k", b"v")])
    batches, _, _ = kernels.walk(data, 0, len(data), 0, -1, True, 10)
    records, _, _, _ = kernels.decode_run(data, 0, batches, 0, 10)
    place = ["topic", "partition", "segment"]
    written: list[bytes] = []
    kernels.format_records(
        written.append, data, batches, records, None, json_form(b"", c.BYTES_AUTO)
    )
    kernels.format_batches(written.append, batches, array("q", [0]), json_form(b"", 0))
    of_record, of_batch = map(json.loads, b"".join(written).splitlines())
    assert [*place, *list(of_record)[1:]] == names(RECORD)
    assert [*place, *list(of_batch)[1:]] == names(BATCH)


def test_manual_lists_every_member() -> None:
    text = re.sub(r"\\f.|\\", "", MAN.read_text("utf-8"))
    missing = [name for name in names((*RECORD, *PRE08, *MARKS, *SAID, *BATCH)) if name not in text]
    assert not missing


def test_reasons_are_named_as_their_constants() -> None:
    named = {
        number: name.lower().replace("_", "-")
        for name, number in vars(reasons).items()
        if name.isupper() and isinstance(number, int)
    }
    assert named == reasons.NAMES
