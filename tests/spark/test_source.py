"""`spark.read.format("kdump")` against the rows of `dump`."""

import json
import os
import shutil
import subprocess
import sys
import warnings
from datetime import UTC
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import builders
import pytest
import registry_log
from corpus import corpus, files, names
from dumped import Json, run_dump
from long_runs import LONG
from message_writing import message_bytes
from metadata_log import config, log_of, partition, topic

import kdump.spark
from kdump import __version__
from kdump.engine.verify.options import VerifyOptions
from kdump.engine.verify.run import verify
from kdump.errors import PathError, UsageError
from kdump.findings.finding import Finding
from kdump.messages.table import message
from kdump.spark.owners import FILE, OWNER
from kdump.spark.schema import VIEWS, columns_of

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]
TIME = 1_700_000_000_000
METADATA = "__cluster_metadata-0"
FILES = ("path", *(field.name for field in (*OWNER, *FILE)))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions of `orders` and one of `other`, of three segments each, with indexes."""
    root = tmp_path_factory.mktemp("data")
    for name in ("orders-0", "orders-1", "other-0"):
        (root / name).mkdir()
        for base in (0, 400, 800):
            log = root / name / f"{base:020}.log"
            log.write_bytes(
                b"".join(
                    builders.batch(
                        [
                            builders.record(k, k, b"k%d" % k, b"v", [(b"h", None), (b"i", b"1")])
                            for k in range(10)
                        ],
                        base_offset=base + 10 * n,
                        base_timestamp=TIME + base + 10 * n,
                        max_timestamp=TIME + base + 10 * n + 9,
                    )
                    for n in range(40)
                )
            )
            entries = [(39, 3 * 100), (79, 7 * 100)]
            log.with_suffix(".index").write_bytes(
                b"".join(o.to_bytes(4, "big") + p.to_bytes(4, "big") for o, p in entries)
            )
    return root


def read(spark: Any, *paths: Path, **options: str) -> Any:
    reader = spark.read.format("kdump").options(**options)
    return reader.load(str(paths[0]) if len(paths) == 1 else [str(path) for path in paths])


def as_dumped(row: Any) -> Json:
    """Write a row of Spark's as `dump --bytes hex` writes it."""
    members = row.asDict(recursive=True)
    kind = members.pop("timestampType")
    assert members["timestamp_type"] == {0: "CreateTime", 1: "LogAppendTime", -1: None}[kind]
    moment = members.pop("timestamp")
    if moment is not None:
        exact = round(moment.astimezone(UTC).timestamp() * 1000)
        assert exact == members["timestamp_ms"]
    for name in (*FILES, "format", "next_offset"):
        del members[name]
    for name in ("crc_valid", "inner_codec"):  # members of the few rows that are marked
        if members[name] is None:
            del members[name]
    for name in ("key", "value"):
        members[name] = None if members[name] is None else bytes(members[name]).hex()
    members["headers"] = [
        {
            "key": header["key"].encode().hex(),
            "value": None if header["value"] is None else bytes(header["value"]).hex(),
        }
        for header in members["headers"]
    ]
    members["control"] = members["control"] and json.loads(members["control"])
    return members


def expected(path: Path, **options: Any) -> list[Json]:
    rows = [row for row in run_dump(path, **options)[0] if row["row"] == "record"]
    for row in rows:
        for name in ("row", "format", "next_offset"):
            row.pop(name, None)
    return rows


def by_place(row: Json) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ("topic", "partition", "segment", "position", "offset"))


CORPORA = [name for folder in ("modern/data", "old") for name in names(folder)]


@pytest.mark.parametrize("name", CORPORA if LONG else CORPORA[2::9])
def test_records_equal_those_of_dump(spark: Any, name: str) -> None:
    path = corpus(name)
    logs = [*files(path, "*.log"), *files(path, "*.kafka")]
    roots = sorted({log.parent for log in logs})[: None if LONG else 6]
    table = read(spark, *roots)
    ours = [as_dumped(row) for row in table.collect()]
    theirs = [row for root in roots for row in expected(root)]
    assert sorted(ours, key=by_place) == sorted(theirs, key=by_place)


def test_first_columns_match_the_spark_kafka_source(spark: Any, directory: Path) -> None:
    assert read(spark, directory).dtypes[:8] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    for view in VIEWS:
        assert dict(read(spark, directory, view=view).dtypes) == columns_of(view)


def test_internal_topics_are_decoded_on_request(spark: Any, tmp_path: Path) -> None:
    key = b"\0\1" + message_bytes(message("OffsetCommitKey"), 0, {"group": "billing"})
    value = b"\0\3" + message_bytes(message("OffsetCommitValue"), 3, {"offset": 5})
    for name in ("__consumer_offsets-0", "orders-0"):
        (tmp_path / name).mkdir()
        log = builders.batch([builders.record(0, 0, key, value), builders.record(1, 0, key, None)])
        (tmp_path / name / f"{0:020}.log").write_bytes(log)
    table = read(spark, tmp_path, decode="auto")
    assert dict(table.dtypes) == columns_of("records", decode=True)
    rows = table.orderBy("topic", "offset").collect()
    said = [None if row.value_json is None else json.loads(row.value_json) for row in rows]
    assert [one and one["data"]["offset"] for one in said] == [5, None, None, None]
    assert [row.key is None for row in rows] == [True, True, False, False]
    assert [bool(row.key_json) for row in rows] == [True, True, False, False]
    assert read(spark, tmp_path, decode="auto").select("value_json").distinct().count() == 2
    raw = read(spark, tmp_path, decode="raw")
    assert dict(raw.dtypes) == columns_of("records")
    assert raw.where("key is null").count() == 0
    with pytest.raises(Exception, match="neither auto nor raw"):
        read(spark, tmp_path, decode="yes").collect()


def test_values_are_decoded_by_schema(spark: Any, tmp_path: Path) -> None:
    """The registry's topic lies under the paths, or a file is given; tasks read it themselves."""
    order = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    data, elsewhere, file = tmp_path / "data", tmp_path / "else", tmp_path / "order.avsc"
    registry_log.topic(data, "_schemas", [registry_log.schema_record("orders-value", 1, 7, order)])
    sent = [(b"k", registry_log.frame(7, bytes((2 * number,)))) for number in range(5)]
    registry_log.topic(data, "orders", sent)
    registry_log.topic(elsewhere, "orders", [(None, bytes((2 * number,))) for number in range(5)])
    file.write_text(json.dumps(order))
    asked = {"topic": "orders", "decode": "auto"}
    ids = "cast(get_json_object(value_json, '$.data.id') as int) as id"
    for path, more in ((data, {}), (elsewhere, {"schemas": f"orders={file}"})):
        rows = read(spark, path, **asked, **more).orderBy("offset").selectExpr(ids).collect()
        assert [row.id for row in rows] == [*range(5)]
    early = read(spark, data, **asked, schemasAtMs="1970-01-01T00:00Z").select("value_json")
    assert "unknown id" in early.first().value_json
    with pytest.raises(Exception, match="need decode=auto"):
        read(spark, data, readerSchema="latest").collect()


def test_schema_prunes_columns(spark: Any, directory: Path) -> None:
    reader = spark.read.format("kdump").schema("offset bigint, path string, timestampType int")
    table = reader.load(str(directory / "orders-0"))
    assert [row.offset for row in table.orderBy("offset").collect()] == list(range(1200))
    assert table.select("path", "timestampType").distinct().count() == 3
    paths = spark.read.format("kdump").schema("path string").load(str(directory / "orders-0"))
    assert paths.count() == 1200


@pytest.mark.parametrize(
    ("schema", "reason"),
    [("ofset bigint", "no column 'ofset'"), ("value string", "column value is binary")],
)
def test_schema_with_unknown_columns_is_refused(
    spark: Any, directory: Path, schema: str, reason: str
) -> None:
    with pytest.raises(Exception, match=reason):
        spark.read.format("kdump").schema(schema).load(str(directory)).count()


def test_options_skip_files(spark: Any, directory: Path, tmp_path: Path) -> None:
    """What cannot be opened fails a query that asks for it, and no other."""
    root = tmp_path / "data"
    for name in ("orders-0", "other-0"):
        (root / name).mkdir(parents=True)
        for base in (0, 400):
            log = root / name / f"{base:020}.log"
            log.write_bytes((directory / name / f"{base:020}.log").read_bytes())
    for name in ("other-0/" + f"{0:020}.log", "orders-0/" + f"{400:020}.log"):
        (root / name).unlink()
        (root / name).mkdir()  # no file any more
    for view, rows in (("records", 400), ("batches", 40)):
        assert read(spark, root, view=view, topic="orders", toOffset="400").count() == rows
        with pytest.raises(Exception, match="is a directory"):
            read(spark, root, view=view, topic="orders").count()


def test_batches(spark: Any, directory: Path) -> None:
    rows = (
        read(spark, directory, view="batches").orderBy("topic", "partition", "position").collect()
    )
    theirs, _ = run_dump(directory, mode="batches")
    assert len(rows) == len(theirs) == 360
    place = ("topic", "partition", "segment", "position")
    ours = sorted(
        ({k: v for k, v in row.asDict().items() if k not in FILES} for row in rows),
        key=lambda row: [row[name] for name in place],
    )
    wanted = sorted(theirs, key=lambda row: [row[name] for name in place])
    for row in wanted:
        del row["row"]
    assert ours == wanted


def test_index_entries(spark: Any, directory: Path) -> None:
    rows = read(spark, directory, view="index-entries").where("topic = 'other'").collect()
    assert sorted((row.segment, row.slot, row.offset, row.position) for row in rows) == [
        (base, slot, base + 39 + 40 * slot, 300 + 400 * slot)
        for base in (0, 400, 800)
        for slot in (0, 1)
    ]


def test_findings_equal_those_of_verify(spark: Any) -> None:
    roots = sorted({log.parent for log in files(corpus("old/damage-01022.all.before"), "*.log")})
    theirs = [
        (item.code, item.path, item.segment, item.position, item.offset, item.message)
        for item in verify([str(root) for root in roots], VerifyOptions())
        if isinstance(item, Finding)
    ]
    rows = read(spark, *roots, view="findings").collect()
    ours = [
        (row.code, row.path, row.segment, row.position, row.offset, row.message) for row in rows
    ]
    assert ours
    assert {row.engine_version for row in rows} == {__version__}
    assert sorted(map(str, ours)) == sorted(map(str, theirs))


def test_findings_use_topic_settings(spark: Any, directory: Path, tmp_path: Path) -> None:
    data = tmp_path / "node" / "data"
    shutil.copytree(directory / "orders-0", data / "orders-0")
    (data / METADATA).mkdir()
    limit = config(2, "orders", "max.message.bytes", "10")
    log = log_of([topic("orders", 7), partition(0, 7), limit])
    (data / METADATA / f"{0:020}.log").write_bytes(log)
    options = VerifyOptions()
    for path in (data, data.parent):
        theirs = [one for one in verify([str(path)], options) if isinstance(one, Finding)]
        rows = read(spark, path, view="findings").collect()
        assert sorted(row.code for row in rows) == sorted(one.code for one in theirs)
        assert "over-message-limit" in {row.code for row in rows}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"view": "nonsense"}, "give one of records, batches, findings, index-entries"),
        ({"fromOffset": "many"}, "is not a whole number"),
        ({"visible": "perhaps"}, "neither true nor false"),
        ({"pushdown": "perhaps"}, "neither true nor false"),
        ({"form_offset": "3"}, "no option 'form_offset': did you mean fromOffset"),
        ({"subscribe": "orders"}, "'subscribe': give topic, a name or a pattern"),
        ({"startingOffsets": "4"}, "is neither earliest nor JSON such as"),
        ({"kafka.bootstrap.servers": "a:9092"}, "no broker is contacted"),
        ({"view": "commits", "fromOffset": "3"}, "it is an option of records, batches"),
    ],
)
def test_wrong_options(spark: Any, directory: Path, options: dict[str, str], reason: str) -> None:
    with pytest.raises(Exception, match=reason):
        read(spark, directory, **options).count()


def planned(path: Path, **options: str) -> Any:
    """Return the reader that Spark would be given, without Spark."""
    from kdump.spark.source import KdumpSource

    source = KdumpSource({"path": str(path)} | options)
    columns = {"records": "offset", "batches": "last_offset", "findings": "code"}
    view = options.get("view", "records").lower()
    kinds = {"offset": "long", "last_offset": "long", "code": "string", "row": "string"}
    column = columns.get(view, "row")
    types = pytest.importorskip("pyspark.sql.types")
    return source.reader(types.StructType().add(column, kinds[column]))


def rows_read(reader: Any) -> list[Any]:
    return [
        row[0]
        for piece in reader.partitions()
        for batch in reader.read(piece)
        for row in zip(*batch.to_pydict().values(), strict=True)
    ]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"isolation": "read_comitted"}, "neither read_uncommitted nor read_committed"),
        ({"isolation": ""}, "neither read_uncommitted nor read_committed"),
        ({"decompressLimit": "0"}, "option decompressLimit: '0' is not a size: give at least one"),
        ({"decompressLimit": "-1"}, "is not a size"),
        ({"decompressLimit": "9999999999TiB"}, "does not fit in 64 bits"),
        ({"packBytes": "0"}, "option packBytes: '0' is not a size: give at least one byte"),
        ({"packBytes": "-5"}, "is not a size"),
        ({"partition": "-1"}, "'-1' is below 0"),
        ({"fromOffset": str(1 << 63)}, "does not fit in 64 bits"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, "has -1 for a-0: give an offset, or -2"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "has -2 for a-0: give an offset, or -1"),
        ({"endingOffsets": '{"a":{"x":2}}'}, "neither latest nor JSON"),
        ({"startingOffsets": '{"a":7}'}, "neither earliest nor JSON"),
        ({"modifiedAfter": "0", "isolation": "read_committed"}, "modifiedAfter excludes"),
        ({"view": "segments", "packBytes": "1MiB"}, "it is an option of records, batches"),
        ({"failOnDataLoss": "true"}, "failOnDataLoss is an option of readStream"),
        ({"view": "findings", "retired": "true"}, "it is an option of records, batches, index-ent"),
        ({"fromTimeMs": "1700000000"}, "if these are seconds, type 1700000000000"),
        ({"view": "record"}, "did you mean records"),
        ({"decode": "row"}, "neither auto nor raw"),
        ({"paths": "/var/lib/kafka"}, "not a JSON list of paths"),
        ({"view": "findings", "isolation": "read_committed"}, "an option of records, batches"),
        ({"view": "findings", "fromOffset": "3"}, "view findings has no option 'fromOffset'"),
        ({"view": "index-entries", "toOffset": "3"}, "view index-entries has no option"),
        ({"view": "batches", "decode": "auto"}, "it is an option of records"),
        ({"view": "groups", "openOnly": "true"}, "it is an option of transactions"),
        ({"view": "groups", "atOffset": "3"}, "it is an option of metadata"),
        ({"view": "commits", "history": "false"}, "it is an option of metadata"),
        ({"view": "transactions", "group": "a"}, "it is an option of groups, commits"),
        ({"view": "metadata", "atMs": "1", "atOffset": "1"}, "exclude each other"),
        ({"view": "findings", "tier": "/nowhere/at/all"}, "'/nowhere/at/all' is not a directory"),
        ({"view": "findings", "tier": "s3://a:secret@b"}, "contains a password, which Spark would"),
        ({"view": "findings", "tierKey": "key.pem"}, "option tierKey needs tier"),
        ({"view": "summary", "tier": "/"}, "it is an option of findings"),
    ],
)
def test_option_values_are_validated_like_the_command(
    directory: Path, options: dict[str, str], reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        planned(directory, **options)


@pytest.fixture(scope="module")
def half_aborted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a partition with a plain batch, and one of an aborted transaction."""
    made = tmp_path_factory.mktemp("aborted") / "orders-0"
    made.mkdir()
    aborted = builders.batch(
        [builders.record(0, 0, b"k", b"v")],
        base_offset=1,
        attributes=builders.TRANSACTIONAL,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
    )
    marker = builders.marker(0, base_offset=2, producer_id=7)
    plain = builders.batch([builders.record(0, 0, b"k", b"v")])
    (made / f"{0:020}.log").write_bytes(plain + aborted + marker)
    slot = builders.struct.pack(">hqqqq", 0, 7, 1, 2, 3)
    (made / f"{0:020}.txnindex").write_bytes(slot)
    return made


@pytest.mark.parametrize("name", ["isolation", "ISOLATION"])
@pytest.mark.parametrize("value", ["read_committed", "READ_COMMITTED", "Read_Committed"])
def test_isolation_ignores_letter_case(half_aborted: Path, name: str, value: str) -> None:
    assert rows_read(planned(half_aborted, **{name: value})) == [0]
    assert rows_read(planned(half_aborted)) == [0, 1, 2]


def test_sizes_and_times_are_read_as_on_the_command_line(directory: Path) -> None:
    path = directory / "orders-0"
    assert len(planned(path, packBytes="4KiB").partitions()) > 1
    assert len(planned(path, packBytes="64MiB").partitions()) == 1
    times = {"fromTimeMs": "2023-11-14T22:13:20.005Z", "toTimeMs": str(TIME + 8)}
    assert rows_read(planned(path, **times)) == [5, 6, 7]


def test_batches_over_the_limit_are_reported(tmp_path: Path) -> None:
    made = tmp_path / "orders-0"
    made.mkdir()
    small, large = (
        builders.batch(
            [builders.record(0, 0, b"k", b"v" * size)],
            base_offset=base,
            attributes=builders.GZIP,
            compress=builders.gzip_bytes,
        )
        for base, size in ((0, 5), (1, 5000))
    )
    (made / f"{0:020}.log").write_bytes(small + large)
    with pytest.warns(RuntimeWarning, match="records are omitted: over-decompress-limit at"):
        assert rows_read(planned(made, decompressLimit="1000")) == [0]
    limited = {"view": "findings", "decompressLimit": "1kB"}
    assert "over-decompress-limit" in rows_read(planned(made, **limited))
    assert "over-decompress-limit" not in rows_read(planned(made, **limited, deep="false"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rows_read(planned(made, decompressLimit="64MiB")) == [0, 1]


def test_options_of_dump(spark: Any, directory: Path) -> None:
    table = read(spark, directory, topic="ord*", partition="1", fromOffset="5", toOffset="9")
    assert sorted(row.offset for row in table.collect()) == [5, 6, 7, 8]


def test_nothing_is_written(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="UsageError: format kdump is read-only: kdump salvage"):
        spark.range(1).write.format("kdump").mode("append").save(str(tmp_path / "out"))


def test_functions_of_views(spark: Any, directory: Path) -> None:
    few = {"orders": {"0": 1195}}
    rows = kdump.spark.records(spark, str(directory), topic="orders", startingOffsets=few)
    assert rows.where("partition = 0").count() == 5
    assert kdump.spark.segments(spark, [str(directory / "other-0")]).count() == 3
    for view in VIEWS:
        assert getattr(kdump.spark, view.replace("-", "_")).__doc__


def test_errors_have_one_line(spark: Any, directory: Path) -> None:
    with pytest.raises(Exception, match="no option 'form_offset'") as caught:
        read(spark, directory, form_offset="3")
    assert str(caught.value).count('File "') == 1


def test_missing_path_is_an_error(spark: Any) -> None:
    with pytest.raises(Exception, match="/nowhere/at/all: No such file"):
        spark.read.format("kdump").load("/nowhere/at/all").count()


def test_patterns_and_relative_paths(spark: Any, directory: Path, tmp_path: Path) -> None:
    assert read(spark, directory / "orders-?").count() == 2400
    assert read(spark, directory / "ot*", directory / "other-0").count() == 1200
    assert read(spark, directory / "no*").count() == 0
    with pytest.raises(PathError, match=r"/no\*: matches no path"):
        planned(directory / "no*", failOnMissing="true")
    odd = tmp_path / "a[1]"
    shutil.copytree(directory / "other-0", odd / "other-0")
    assert read(spark, odd).count() == 1200
    relative = os.path.relpath(directory)
    paths = read(spark, Path(relative)).select("path").distinct().collect()
    assert all(Path(row.path).is_absolute() for row in paths)


def test_views_of_sql_and_no_tables(spark: Any, directory: Path) -> None:
    asked = f"using kdump options (path '{directory}', view 'batches', topic 'orders')"
    spark.sql(f"create or replace temporary view batches_of_orders {asked}")
    assert spark.sql("select count(*) n from batches_of_orders").first().n == 240
    with pytest.raises(Exception, match="CREATE TEMPORARY VIEW name USING kdump"):
        spark.sql(f"create table orders_on_disk {asked}")


@pytest.mark.parametrize("damage", ["none", "flip", "length", "index", "torn"])
def test_large_logs_are_cut_at_proved_batches(
    spark: Any, directory: Path, tmp_path: Path, damage: str
) -> None:
    root = tmp_path / "data"
    shutil.copytree(directory / "orders-0", root / "orders-0")
    log = root / "orders-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    at = len(data) // 2
    if damage == "flip":
        data[at] ^= 1
    elif damage == "length":
        start = at - at % (len(data) // 40)
        data[start + 8 : start + 12] = b"\x7f\xff\xff\xff"
    elif damage == "torn":
        del data[at:]
    log.write_bytes(data)
    slots = [(39, 4 * (len(data) // 40)), (79, at + 5 if damage == "index" else 12_000)]
    log.with_suffix(".index").write_bytes(
        b"".join(o.to_bytes(4, "big") + p.to_bytes(4, "big") for o, p in slots)
    )
    table = read(spark, root, packBytes="5000")
    assert table.rdd.getNumPartitions() >= 4
    whole = read(spark, root, packBytes=str(1 << 30))
    assert whole.rdd.getNumPartitions() == 1
    rows = [[row.offset for row in one.orderBy("offset").collect()] for one in (table, whole)]
    assert rows[0] == rows[1]
    assert rows[0] == sorted(row["offset"] for row in expected(root))


def test_pure_kernel_is_an_error_if_compiled_is_required(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kdump.output import process_tuning
    from kdump.spark.source import KdumpSource, Piece

    options = {"path": str(directory / "orders-0")}
    schema = pytest.importorskip("pyspark.sql.types").StructType().add("offset", "long")
    monkeypatch.setattr(process_tuning, "KERNEL", "pure")
    reader = KdumpSource(options).reader(schema)
    with pytest.warns(RuntimeWarning, match="kdump uses the pure kernel on "):
        assert sum(batch.num_rows for batch in reader.read(reader.partitions()[0])) == 1200
    reader = KdumpSource(options | {"requireCompiled": "true"}).reader(schema)
    with pytest.raises(UsageError, match="requireCompiled"):
        list(reader.read(Piece(())))


WITHOUT_KDUMP = """
import sys
sys.path.insert(0, sys.argv[1])
from kdump.spark.register import register
from kdump.spark.session import spark_session
with spark_session("local[1]", None) as spark:
    register(spark)
    try:
        print(spark.read.format("kdump").load(sys.argv[2]).count())
    except Exception as error:
        print(error)
"""


@pytest.mark.parametrize("has_it", [True, False])
def test_registered_source_names_hosts_without_kdump(directory: Path, has_it: bool) -> None:
    """Workers find modules by PYTHONPATH; the program that starts them has kdump in any case."""
    if not has_it and find_spec("kdump") is not None:
        pytest.skip("kdump is installed for this Python, so nothing can be missing")
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": str(root) if has_it else "", "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_KDUMP, str(root), str(directory)],
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    if has_it:
        assert done.stdout.split() == ["3600"], done.stderr
    else:
        assert "has no kdump" in done.stdout
        assert "set PYSPARK_PYTHON to a Python that has it" in done.stdout


def test_each_row_has_the_path_of_its_file(spark: Any, directory: Path) -> None:
    for view in ("records", "batches"):
        rows = read(spark, directory, view=view).select("topic", "partition", "segment", "path")
        for row in rows.distinct().collect():
            name = f"{row.topic}-{row.partition}/{row.segment:020}.log"
            assert row.path == str(directory / name)
