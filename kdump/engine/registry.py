"""Every command by its name: what runs it, its options, and the kinds of rows that it makes.

The command line, Spark and the library are clients of this table: what a command can do, all can.
Modules are named, not imported: who asks for a command imports what that one needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kdump.tuples import NamedTuple

if TYPE_CHECKING:
    from kdump.errors import KdumpError
    from kdump.findings.finding import Finding

    #: Yields rows, findings, and errors of paths that cannot be read.
    Run = Callable[..., Iterator[Any | Finding | KdumpError]]


class Command(NamedTuple):
    """A command of the engine.

    `kinds`: the kinds of rows that it makes, each with the options without which there are none.
    `asks`: what it takes behind the paths. `always`: options that it always has.
    """

    function: str
    options_class: str
    kinds: Mapping[str, Mapping[str, object]]
    asks: bool = False
    always: Mapping[str, object] = MappingProxyType({})

    @property
    def run(self) -> Run:
        """The function that runs it: paths, what it asks for, options, `progress` and `driver`."""
        found: Run = _import_named(self.function)
        return found

    def options(self, **given: object) -> Any:
        """Make its options of what is given; a moment that is not given is now."""
        made: Callable[..., Any] = _import_named(self.options_class)
        given |= self.always
        if "now_ms" in getattr(made, "_fields", ()) and given.get("now_ms") is None:
            given["now_ms"] = time.time_ns() // 1_000_000
        return made(**given)


def _import_named(name: str) -> Any:
    module, _, member = name.partition(":")
    return getattr(import_module(f"kdump.engine.{module}"), member)


_ALWAYS: Mapping[str, object] = {}
_ENTRIES = {"mode": "entries"}
_HISTORY = {"history": True}


def _kinds(names: str, options: Mapping[str, object] = _ALWAYS) -> dict[str, Mapping[str, object]]:
    return dict.fromkeys(names.split(), options)


COMMANDS: Mapping[str, Command] = {
    "info": Command(
        "info.run:info",
        "info.run:InfoOptions",
        _kinds("directory topic-summary hint")
        | _kinds("partition-summary", {"partitions": True})
        | _kinds("dating-evidence", {"explain": True}),
    ),
    "dump": Command(
        "dump.run:dump",
        "reading.options:DumpOptions",
        _kinds("record frame")
        | _kinds("schema connector task connector-offset", {"decode": True, "schema_rows": True})
        | _kinds("batch", {"mode": "batches"})
        | _kinds(
            "offset-index-entry time-index-entry aborted-transaction producer-state leader-epoch"
            " checkpoint-offset property",
            _ENTRIES,
        ),
    ),
    "groups": Command(
        "groups.run:groups",
        "groups.options:GroupOptions",
        _kinds("group member committed-offset")
        | _kinds("ended-offset", {"ended": True})
        | _kinds("offset-commit member-join member-leave rebalance partition-owner", _HISTORY),
    ),
    "transactions": Command(
        "transactions.run:transactions",
        "transactions.run:TransactionOptions",
        _kinds("transaction"),
    ),
    "cluster": Command(
        "cluster.run:cluster",
        "cluster.options:ClusterOptions",
        _kinds(
            "cluster-summary broker controller topic partition config feature quota scram-user acl"
            " delegation-token producer-ids zk-migration"
        )
        | _kinds("change", _HISTORY)
        | _kinds("znode", {"view": "zookeeper"}),
    ),
    "timeline": Command(
        "timeline.run:timeline",
        "timeline.options:TimelineOptions",
        _kinds("event clock-skew"),
    ),
    "report": Command(
        "report.run:report",
        "report.options:ReportOptions",
        _kinds("report-part evidence-file written"),
    ),
    "usage": Command("usage.run:usage", "usage.step:UsageOptions", _kinds("usage usage-summary")),
    "verify": Command(
        "verify.run:verify",
        "verify.options:VerifyOptions",
        _kinds("finding way-past summary")
        | _kinds("remote-segment", {"tier": "."})
        | _kinds("summary-by", {"summary_by": ("broker", "topic")})
        | _kinds("append", {"append": b""}),
    ),
    "predict": Command(
        "verify.run:verify",
        "verify.options:VerifyOptions",
        _kinds("recovery node-start finding way-past summary"),
        always={"predict": True},
    ),
    "compare": Command(
        "compare.run:compare",
        "compare.plan:CompareOptions",
        _kinds("replica-difference replica-comparison")
        | _kinds("mirror-stretch mirror-comparison", {"mirror": True})
        | _kinds("translated-offset", {"mirror": True, "groups": True}),
    ),
    "elect": Command(
        "compare.elect:elect",
        "compare.plan:CompareOptions",
        _kinds("replica-election"),
        always={"elect": True},
    ),
    "sequences": Command(
        "sequences.run:sequences",
        "sequences.run:SequenceOptions",
        _kinds("sequence-gap sequence-duplicate sequence-summary"),
    ),
    "duplicates": Command(
        "duplicates.run:duplicates",
        "duplicates.entries:DuplicateOptions",
        _kinds("duplicates-summary duplicate"),
    ),
    "placement": Command(
        "usage.placement_rows:placement",
        "usage.placement:PlacementOptions",
        _kinds("key-placement misplaced-keys moved-key"),
    ),
    "find-offset": Command(
        "find.run:find_offset",
        "find.options:FindOptions",
        _kinds("offset-lookup") | _kinds("fetch", {"max_bytes": 1 << 20}),
        asks=True,
    ),
    "find-time": Command(
        "find.run:find_time", "find.options:FindOptions", _kinds("time-lookup"), asks=True
    ),
    "why": Command(
        "why.run:why",
        "why.options:WhyOptions",
        _kinds(
            "segment-fate pinned-segments partition-space topic-space data-directory plan-step"
            " why-summary remote-fate tier-space"
        )
        | _kinds("compaction", {"cleaner": True}),
    ),
    "reindex": Command("reindex.run:reindex", "reindex.options:ReindexOptions", _kinds("reindex")),
    "salvage": Command(
        "salvage.run:salvage",
        "salvage.options:SalvageOptions",
        _kinds("salvaged salvage-step salvage-check"),
    ),
    "carve": Command(
        "salvage.run:salvage",
        "salvage.options:SalvageOptions",
        _kinds("carved salvaged salvage-step"),
        always={"carve": True},
    ),
    "produce": Command(
        "salvage.run:salvage",
        "salvage.options:SalvageOptions",
        _kinds("salvaged salvage-step") | _kinds("group-offset group-offsets", {"groups": True}),
    ),
}


def command_of(kind: str) -> tuple[str, Mapping[str, object]]:
    """Return the name of the command that makes rows of a kind, and with which options.

    Raises KeyError where there is none.
    """
    for name, command in COMMANDS.items():
        if kind in command.kinds:
            return name, command.kinds[kind]
    raise KeyError(kind)
