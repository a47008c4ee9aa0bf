"""default: headers of a record, which are read only when they are asked for."""

import builders
import pytest

from kdump import kernels
from kdump.findings.rows import Place, RecordChunk
from kdump.record import default


def test_many_headers_form_a_sequence() -> None:
    wanted = [(b"k%d" % number, None if number % 3 else b"v" * number) for number in range(600)]
    log = builders.batch([builders.record(headers=wanted)])
    batches, _, _ = kernels.walk(log, 0, len(log), 0, -1, True, 9)
    records, _, _, _ = kernels.decode_run(log, 0, batches, 0, 100)
    (record,) = RecordChunk(Place("t", 0, 0, "x"), log, batches, records).iter_records()
    headers = record.headers
    assert isinstance(headers, default.Headers)
    assert len(headers) == 600
    assert headers == wanted
    assert list(headers) == list(headers) == wanted
    assert headers[7] == wanted[7]
    assert headers[-1] == wanted[-1]
    assert headers[5:9] == tuple(wanted[5:9])
    with pytest.raises(IndexError):
        headers[600]
