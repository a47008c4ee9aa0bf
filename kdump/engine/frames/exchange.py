"""The requests and responses of one connection: what each is, and which belong together.

Responses name their request by its correlation id; those of 0.7 come in its order. A frame whose
fields are not read keeps its name. After a SASL handshake of version 0 come tokens that are no
requests; nothing is ever shown of them.
"""

from __future__ import annotations

from collections import deque

from kdump.messages import old_protocol, protocol
from kdump.messages.old_protocol import Part
from kdump.messages.table import Fields
from kdump.messages.wire import MalformedError
from kdump.tuples import NamedTuple

REQUEST, RESPONSE = "request", "response"
#: Requests of all connections that wait for an answer; of one, those before had none.
MOST_PENDING = 1 << 16
_LEAST_PENDING = 16
_MOST_CLIENT_ID = 255  # characters of a client id that is kept for the answer
_SASL_TOKEN = "SaslToken"


class DecodedFrame(NamedTuple):
    """A request or a response. `fields` or, of 0.7, `parts` are None where they are not read.

    `problem` is a code of a finding, with what is wrong in words.
    """

    direction: str | None = None
    api: int | None = None
    name: str | None = None
    version: int | None = None
    correlation_id: int | None = None
    client_id: str | None = None
    fields: Fields | None = None
    parts: list[Part] | None = None
    error: str | None = None
    problem: tuple[str, str] | None = None


class Exchange:
    """Follows a connection. `is_old`: it was seen to be one of 0.7."""

    def __init__(self) -> None:
        self.is_old = False
        self.most_pending = MOST_PENDING
        self._pending: dict[int, DecodedFrame] = {}
        self._old_pending: deque[DecodedFrame] = deque()
        self._old_parts = 0  # in those
        self._has_tokens = False

    def begins_request(self, head: bytes, size: int, *, strictly: bool = False) -> bool:
        """Whether a frame of a size that begins so looks like a request, after its length.

        `strictly`: it may as well be a response, which often looks like a produce request.
        """
        if not self.is_old and protocol.begins_request(head, size):
            return not strictly or protocol.is_request(head, size)
        return old_protocol.begins_request(head, size)

    def begins_response(self, head: bytes, size: int) -> bool:
        """Whether it answers a request that is known."""
        if self.is_old:
            return bool(self._old_pending) and size >= 2
        return size >= protocol.LEAST_RESPONSE and _correlation_id(head) in self._pending

    def request(self, data: bytes, *, whole: bool = True) -> DecodedFrame:
        """Take a request; of one that is too large only the beginning is given."""
        if not self.is_old:
            said = self._request(data, whole=whole)
            is_old = old_protocol.begins_request(data, len(data))
            if said is not None and (said.problem is None or not is_old):
                return said
        try:
            api, parts = old_protocol.read_request(data)
        except MalformedError:
            if not self.is_old and said is not None:
                return said
            problem = ("frame-malformed", "The fields of the request do not fit its bytes.")
            return DecodedFrame(REQUEST, problem=problem)
        self.is_old = True
        said = DecodedFrame(REQUEST, api, old_protocol.NAMES[api], parts=parts)
        if api not in (old_protocol.PRODUCE, old_protocol.MULTI_PRODUCE):
            self._old_pending.append(said)
            self._old_parts += len(parts)
            while self._old_parts > self.most_pending and len(self._old_pending) > 1:
                self._next_old()
        return said

    def _next_old(self) -> DecodedFrame:
        """Take the request of 0.7 that is answered next."""
        said = self._old_pending.popleft()
        self._old_parts -= len(said.parts or ())
        return said

    def share(self, connections: int) -> None:
        """Let this connection have its share of the requests that may wait."""
        self.most_pending = max(MOST_PENDING // connections, _LEAST_PENDING)

    def _request(self, data: bytes, *, whole: bool) -> DecodedFrame | None:
        try:
            header = protocol.request_header(data)
        except MalformedError:
            if self._has_tokens:
                return DecodedFrame(REQUEST, name=_SASL_TOKEN)
            return DecodedFrame(
                REQUEST, problem=("frame-malformed", "The header of the request is cut short.")
            )
        known = protocol.apis().get(header.api)
        if self._has_tokens and not protocol.begins_request(data, len(data)):
            return DecodedFrame(REQUEST, name=_SASL_TOKEN)
        said = DecodedFrame(
            REQUEST,
            header.api,
            None if known is None else known.name,
            header.version,
            header.correlation_id,
            header.client_id,
        )
        if known is None:
            why = f"No release has an API with the number {header.api}."
            said = said._replace(problem=("frame-unknown", why))
        elif header.version not in known.versions:
            why = f"{known.name} has the versions {known.versions.first} to {known.versions.last}"
            said = said._replace(problem=("frame-unknown", f"{why}, not {header.version}."))
        elif protocol.is_read(header.api) and whole:
            try:
                name = f"{known.name}Request"
                fields = protocol.read_body(name, header.version, data, header.end)
                said = said._replace(fields=fields)
            except MalformedError:
                why = f"The fields of the {known.name} request do not fit its bytes."
                said = said._replace(problem=("frame-malformed", why))
        if header.api == protocol.SASL_HANDSHAKE and header.version == 0:
            self._has_tokens = True
        if said.fields is None or said.fields.get("acks") != 0:
            self._expect(header.correlation_id, said)
        return said

    def _expect(self, correlation_id: int, said: DecodedFrame) -> None:
        self._pending.pop(correlation_id, None)
        while len(self._pending) >= self.most_pending:
            del self._pending[next(iter(self._pending))]
        # An answer asks for nothing but which api it was.
        client_id = said.client_id and said.client_id[:_MOST_CLIENT_ID]
        said = said._replace(client_id=client_id, fields=None, problem=None)
        self._pending[correlation_id] = said

    def is_awaited(self, data: bytes) -> bool:
        """Whether the request is known that a response answers, or none is to be expected."""
        if self.is_old:
            return bool(self._old_pending)
        return self._has_tokens or _correlation_id(data) in self._pending

    def response(self, data: bytes, *, whole: bool = True) -> DecodedFrame:
        """Take a response."""
        if self.is_old:
            return self._old_response(data)
        correlation_id = _correlation_id(data)
        is_whole = len(data) >= protocol.LEAST_RESPONSE
        asked = self._pending.pop(correlation_id, None) if is_whole else None
        if asked is None and self._has_tokens:
            return DecodedFrame(RESPONSE, name=_SASL_TOKEN)
        if not is_whole:
            return DecodedFrame(
                RESPONSE, problem=("frame-malformed", "The header of the response is cut short.")
            )
        if asked is None:
            return DecodedFrame(RESPONSE, correlation_id=correlation_id)
        said = asked._replace(direction=RESPONSE)
        api, version = asked.api, asked.version
        known = None if api is None else protocol.apis().get(api)
        if api is None or version is None or known is None or version not in known.versions:
            return said
        if not protocol.is_read(api) or not whole:
            return said
        try:
            at = protocol.response_fields_at(api, version, data)
            fields = protocol.read_body(f"{known.name}Response", version, data, at)
            return said._replace(fields=fields)
        except MalformedError:
            why = f"The fields of the {known.name} response do not fit its bytes."
            return said._replace(problem=("frame-malformed", why))

    def _old_response(self, data: bytes) -> DecodedFrame:
        if not self._old_pending:
            return DecodedFrame(RESPONSE)
        asked = self._next_old()
        assert asked.api is not None
        said = asked._replace(direction=RESPONSE, parts=None)
        try:
            error, parts = old_protocol.read_response(asked.api, asked.parts or [], data)
        except MalformedError:
            why = f"The fields of the {asked.name} response do not fit its bytes."
            return said._replace(problem=("frame-malformed", why))
        return said._replace(error=error, parts=parts)

    def either(self, data: bytes) -> DecodedFrame:
        """Take a frame of which nothing says whether it is a request or its answer."""
        if self.begins_response(data, len(data)) and not self.is_old:
            kept = dict(self._pending)
            said = self.response(data)
            if said.problem is None:
                return said
            self._pending = kept
        if self.begins_request(data, len(data)):
            had = self.is_old
            said = self.request(data)
            if said.problem is None or not had:
                return said
        if self.is_old and self._old_pending:
            return self._old_response(data)
        if self.is_awaited(data):
            return self.response(data)
        return self.request(data)


def _correlation_id(data: bytes) -> int:
    return int.from_bytes(data[:4], "big", signed=True)
