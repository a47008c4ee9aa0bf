"""Put what keys and values hold, as JSON text, in the place of their bytes; hide secrets in others.

A chunk of records whose topic has a decoder becomes several, each with text of its own, whose
records are flagged (KEY_JSON, VALUE_JSON). Whoever writes them needs no other path than for bytes.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from kdump.findings.escape import json_text
from kdump.findings.rows import Place, RecordChunk, RecordRow
from kdump.kernels import columns as c
from kdump.storage import names
from kdump.values.decoder import Decoder, decoder_of
from kdump.values.secrets import Redact, is_sound, redactor, without_secrets

if TYPE_CHECKING:
    from typing import Protocol

    from kdump.kernels._pure.messages import Write
    from kdump.kernels.columns import DecodedRecords
    from kdump.values.schemas.framed_values import Schemas, Topic

    class SchemaSource(Protocol):
        """Where schemas come from, and what else is read beside the records."""

        @property
        def paths(self) -> tuple[str, ...]:
            """The paths of the run."""

        @property
        def server_properties(self) -> str | None:
            """The settings of the broker, where these name the paths."""

        def open(self) -> Schemas | None:
            """Return them, read once; None: there are none."""


#: Larger records are not decoded: no broker writes one to an internal topic, and what is made of
#: one takes much more memory than its bytes.
MOST_BYTES = 8 << 20
TOO_LARGE = b'{"type":"unknown","problem":"too-large"}'
#: A chunk of decoded records has no more than this; of text at least one record's. The first are
#: smaller, and each twice the one before: a table needs as many as its sample, `--limit` fewer.
_FIRST_RECORDS, _MOST_RECORDS, _MOST_TEXT = 64, 1024, 1 << 20
#: Keys kept as text, of at most so many bytes: 50 MiB if all are as long.
_KEYS_KEPT, _KEY_KEPT_BYTES = 1 << 14, 1 << 8

Bytes = bytes | None
#: JSON texts of a key and a value, None where bytes stay; and bytes in the place of such a value.
Texts = tuple[Bytes, Bytes, Bytes]
#: Whether a record is asked for, by the forms of its key and those of its value.
Admits = Callable[[Sequence[Bytes], Sequence[Bytes]], bool]
#: Of a topic that has no decoder of its own.
_NOTHING = Decoder(lambda key: key, lambda _, value: value, lambda found, _: found)


def values_of(
    place: Place, *, decode: bool, secrets: bool, schemas: SchemaSource | None = None
) -> Values | None:
    """Return how keys and values of a place are shown; None: by their bytes.

    `secrets`: also what is masked otherwise. `schemas`: those that values may be written by.
    """
    topic = place.topic
    # `bootstrap.checkpoint` lies next to the partitions, and has records of cluster metadata.
    if topic is None and names.parse(os.path.basename(place.path)).kind is (
        names.Kind.METADATA_SNAPSHOT
    ):
        topic = names.CLUSTER_METADATA_TOPIC
    decoder = decoder_of(topic) if decode and topic is not None else None
    redact = None if secrets else redactor(place)
    framed = None
    if decode and schemas is not None and (topic is None or not is_of_kafka(topic)):
        opened = schemas.open()
        framed = None if opened is None else opened.of(topic or "")
    if decoder or redact or framed:
        return Values(decoder, redact, secrets=secrets, framed=framed)
    return None


def is_of_kafka(topic: str) -> bool:
    """Whether only Kafka itself writes to a topic."""
    return topic.startswith("__") and decoder_of(topic) is not None


class Values:
    """Decodes the keys and values of one place, or hides secrets in their bytes."""

    def __init__(
        self,
        decoder: Decoder | None,
        redact: Redact | None,
        *,
        secrets: bool,
        framed: Topic | None = None,
    ) -> None:
        self._decoder, self._redact, self._framed = decoder, redact, framed
        self._most = _FIRST_RECORDS
        if decoder is not None:
            self._read_key, self._read_value = _key_reader(decoder, secrets), decoder.read_value
            self._text = _text_writer(decoder, secrets)

    @property
    def decodes(self) -> bool:
        """Whether keys and values are decoded, so that `chunks` has to see all of them."""
        return self._decoder is not None or self._framed is not None

    def hide(self, chunk: RecordChunk, admits: Admits | None = None) -> RecordChunk:
        """Return records as bytes, with the values hidden that hold secrets.

        Records that were asked for by what is hidden are left out.
        """
        if self._redact is None or (shown := without_secrets(chunk, self._redact)) is chunk:
            return chunk
        if admits is not None:
            data, records = shown.data, shown.records
            contents = records.contents(data, shown.numbers)
            admitted = (number for number, key, value in contents if admits((key,), (value,)))
            shown.rows = array("q", admitted)
        return shown

    def hide_row(self, row: RecordRow) -> RecordRow:
        """Return a record as bytes, with its value hidden if that holds a secret."""
        value = None if self._redact is None or row.value is None else self._redact(row.value)
        return row if value is None else row._replace(value=value)

    def chunks(self, chunk: RecordChunk, admits: Admits | None = None) -> Iterator[RecordChunk]:
        """Yield the records of a chunk that are asked for, with their keys and values as shown."""
        decoder = self._decoder
        if decoder is not None:
            is_plain = admits is None and self._framed is None and chunk.controls is None
            if decoder.write is not None and is_plain:
                yield from self._write(decoder, decoder.write, chunk)
            else:
                yield from self._decode(decoder, chunk, admits)
        elif self._framed is not None and (admits or self._framed.claims(chunk)):
            yield from self._decode(_NOTHING, chunk, admits)
        elif len(chunk := self.hide(chunk, admits)):
            yield chunk

    def _write(self, decoder: Decoder, write: Write, chunk: RecordChunk) -> Iterator[RecordChunk]:
        """Yield the records of a chunk as the kernel writes them."""
        data, numbers, done = chunk.data, chunk.numbers, 0
        has_controls = chunk.may_have_controls

        def spell(row: int) -> tuple[Bytes, Bytes]:
            number = first + row
            key, value = chunk.records.key(data, number), chunk.records.payload(data, number)
            control = chunk.control(number) if has_controls else None
            return self._all_texts(decoder, key, value, control)[:2]

        while done < len(numbers):
            some = numbers[done : done + self._most]
            first, end = some[0], some[-1] + 1
            records = chunk.records.slice(first, end)
            start = min(records.positions)
            stop = max(map(sum, zip(records.positions, records.sizes, strict=True)))
            rows = None
            if len(some) < end - first:
                rows = array("q", [number - first for number in some])
            count, text = write(data, records, rows, start, stop - start, _MOST_TEXT, spell)
            records = records.up_to(some[count - 1] + 1 - first)
            records.flags |= c.JSON_TEXT
            if len(text) >= _MOST_TEXT or count == self._most:
                self._most = min(2 * self._most, _MOST_RECORDS)
            controls = None
            if has_controls:  # as in _Part
                controls = [chunk.control(first + row) for row in range(records.count)]
            done += count
            joined = b"".join((memoryview(data)[start:stop], text))
            shown = None if rows is None else rows[:count]
            yield RecordChunk(chunk.place, joined, chunk.batches, records, shown, controls)

    def _decode(
        self, decoder: Decoder, chunk: RecordChunk, admits: Admits | None
    ) -> Iterator[RecordChunk]:
        data, records = chunk.data, chunk.records
        has_controls = chunk.may_have_controls
        framed = self._framed
        is_plain = admits is None and not has_controls and not _has_large(records)
        is_plain = is_plain and framed is None
        part = _Part(chunk, self._most, has_controls=has_controls)
        for number, key, value in records.contents(data, chunk.numbers):
            if is_plain:
                texts = self._texts(key, value)
            else:
                control = chunk.control(number) if has_controls else None
                if decoder is not _NOTHING:
                    texts = self._all_texts(decoder, key, value, control)
                elif value is None or self._redact is None:
                    texts = None, None, None
                else:
                    texts = None, None, self._hide(value)
                if framed is not None and control is None:
                    texts = _by_schema(framed, chunk, number, key, value, texts)
                    if decoder.inner_key is not None and key is not None:
                        within = decoder.inner_key(key)
                        texts = (
                            _decode_within(framed, chunk, number, within, texts[0]),
                            *texts[1:],
                        )
                if admits is not None:
                    shown = value
                    if value is not None and not is_sound(control):
                        shown = self._hide(value) or value
                    more = () if framed is None else framed.forms(texts[0])
                    if not admits((key, texts[0], *more), (shown, texts[1])):
                        continue
            if part.add(number, texts):
                yield part.chunk()
                self._most = min(2 * self._most, _MOST_RECORDS)
                part = _Part(chunk, self._most, has_controls=has_controls)
        if part.numbers:
            yield part.chunk()

    def _all_texts(
        self, decoder: Decoder, key: Bytes, value: Bytes, control: dict[str, object] | None
    ) -> Texts:
        """Return what `_texts` does, also of control records and of those that are too large."""
        if control is not None:
            if decoder.read_control is None:
                return None, None, None
            of_key, of_value = decoder.read_control(key, value)
            return (
                None if of_key is None else self._text(of_key),
                None if of_value is None else self._text(of_value),
                None,
            )
        if len(key or b"") + len(value or b"") <= MOST_BYTES:
            return self._texts(key, value)
        if self._redact is None:
            return None, None, None
        # Its bytes might be a secret, however unlikely.
        return None if key is None else TOO_LARGE, TOO_LARGE, None

    def _texts(self, key: Bytes, value: Bytes) -> Texts:
        """Decode a key and a value, or hide the secrets in one that is not decoded."""
        of_key = key_text = None
        if key is not None:
            read = self._read_key
            of_key, key_text = (read if len(key) <= _KEY_KEPT_BYTES else read.__wrapped__)(key)
        if value is None:
            return key_text, None, None
        text = self._text(self._read_value(of_key, value))
        return key_text, text, self._hide(value) if text is None else None

    def _hide(self, value: bytes) -> Bytes:
        return None if self._redact is None else self._redact(value)


def _by_schema(
    framed: Topic, chunk: RecordChunk, number: int, key: Bytes, value: Bytes, texts: Texts
) -> Texts:
    """Decode by schema what is not decoded yet, and is not too large."""
    if len(key or b"") + len(value or b"") > MOST_BYTES:
        return texts
    key_text, value_text, hidden = texts
    of_key, of_value = framed.texts(
        chunk, number, None if key_text else key, None if value_text or hidden else value
    )
    return key_text or of_key, value_text or of_value, hidden


def _decode_within(
    framed: Topic, chunk: RecordChunk, number: int, inner: tuple[bytes, object] | None, text: Bytes
) -> Bytes:
    """Decode the key within a key by schema, in the text of the key."""
    if inner is None or text is None:
        return text
    found, _ = framed.texts(chunk, number, inner[0], None)
    plain = json_text({"key": inner[1]}).encode()[1:-1]
    return text if found is None else text.replace(plain, b'"key":' + found, 1)


@cache
def _text_writer(decoder: Decoder, secrets: bool) -> Callable[[object], Bytes]:
    """Return what writes what was read as JSON text; None where it is not decoded."""
    as_json = decoder.as_json

    def text(found: object) -> Bytes:
        value = as_json(found, secrets)
        return None if isinstance(value, bytes) else json_text(value).encode()

    return text


@cache
def _key_reader(decoder: Decoder, secrets: bool) -> Any:
    """Return what reads a key and writes it as text: in a log that was not compacted keys recur."""
    text, read_key = _text_writer(decoder, secrets), decoder.read_key

    @lru_cache(_KEYS_KEPT)
    def read(key: bytes) -> tuple[object, Bytes]:
        found = read_key(key)
        return found, text(found)

    return read


def _has_large(records: DecodedRecords) -> bool:
    """Whether some record might be too large to be decoded."""
    return len(records) > 0 and max(records.key_sizes) + max(records.value_sizes) > MOST_BYTES


class _Part:
    """Records of a chunk with the JSON texts of their keys and values; None: the bytes stay."""

    def __init__(self, chunk: RecordChunk, most: int, *, has_controls: bool) -> None:
        self._of, self._most, self._has_controls = chunk, most, has_controls
        self.numbers: list[int] = []
        self._texts: list[Texts] = []
        self._size = 0

    def add(self, number: int, texts: Texts) -> bool:
        """Take a record; return whether it is large enough for a chunk."""
        self.numbers.append(number)
        self._texts.append(texts)
        self._size += len(texts[0] or b"") + len(texts[1] or texts[2] or b"")
        return self._size >= _MOST_TEXT or len(self.numbers) >= self._most

    def chunk(self) -> RecordChunk:
        """Return the records, with the bytes around them and the texts in memory of their own."""
        of, first, end = self._of, self.numbers[0], self.numbers[-1] + 1
        records = of.records.slice(first, end)
        start = min(records.positions)
        stop = max(map(sum, zip(records.positions, records.sizes, strict=True)))
        records.shift(-start)
        rows = [number - first for number in self.numbers]
        keys, values, hidden = zip(*self._texts, strict=True)
        at = records.put_keys(rows, keys, stop - start)
        at = records.put_values(rows, values, at, is_json=True)
        records.put_values(rows, hidden, at, is_json=False)
        texts = (text for text in (*keys, *values, *hidden) if text is not None)
        data = b"".join((memoryview(of.data)[start:stop], *texts))
        controls = None
        if self._has_controls:  # their keys are text now, of which no kernel reads a marker
            controls = [of.control(number) for number in range(first, end)]
        shown = None if len(rows) == end - first else array("q", rows)
        return RecordChunk(of.place, data, of.batches, records, shown, controls)
