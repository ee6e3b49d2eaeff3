"""The ways that write tables: `r.append`, and `builtin:ingest` of the files; each table is read back by readers of others."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset
from deltalake import DeltaTable
from pyarrow import parquet
from pyiceberg.catalog import load_catalog

from asset_job.errors import describe
from asset_job.events import TriggeringAssetEvents
from asset_job.ingest.job import Ingest
from asset_job.ingest.plan import IngestJobOptions
from asset_job.sources.request import OnUnrepresentable
from tests.corpus.canonical import Canonical, rows_of, shown
from tests.corpus.ddl import spelled
from tests.corpus.model import Case, Input, Reading, Verdict, Wide
from tests.corpus.results import Results
from tests.corpus.with_spark import World
from tests.unit.sdk.execution_server import event

LONG: Final = [0, 1, -1, 2**63 - 1, -(2**63)]
MOMENTS: Final = [
    datetime(1970, 1, 1),
    datetime(1, 1, 1),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
    datetime(1582, 10, 10, 12),
    datetime(1677, 9, 21),
    datetime(2262, 4, 12),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
]
VALUES: Final[Mapping[str, pa.Array]] = {
    "byte": pa.array([0, 127, -128], pa.int8()),
    "short": pa.array([0, 32767, -32768], pa.int16()),
    "int": pa.array([0, 2**31 - 1, -(2**31)], pa.int32()),
    "long": pa.array(LONG, pa.int64()),
    "float": pa.array([0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), 2.0**-149], pa.float32()),
    "double": pa.array([0.0, -0.0, 0.1, float("nan"), float("inf"), float("-inf"), 5e-324, 1.7976931348623157e308]),
    "boolean": pa.array([True, False]),
    "string": pa.array(["", "a", " a ", "ü€😀", "a\nb", "\x00", "null", '"', "\\", "x" * 5000]),
    "binary": pa.array([b"", b"\x00\xff", b"a" * 5000], pa.binary()),
    "date": pa.array([date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(1582, 10, 10)]),
    "timestamp": pa.array([moment.replace(tzinfo=UTC) for moment in MOMENTS], pa.timestamp("us", "UTC")),
    "timestamp_ntz": pa.array(MOMENTS, pa.timestamp("us")),
    "decimal(5,2)": pa.array([Decimal("999.99"), Decimal("-999.99"), Decimal("0.00")], pa.decimal128(5, 2)),
    "decimal(18,4)": pa.array([Decimal((0, (9,) * 18, -4))], pa.decimal128(18, 4)),
    "decimal(38,18)": pa.array([Decimal((0, (9,) * 38, -18)), Decimal((1, (9,) * 38, -18))], pa.decimal128(38, 18)),
    "array<long>": pa.array([[1, None], []], pa.list_(pa.int64())),
    "struct<a:long,b:string>": pa.array([{"a": 1, "b": None}], pa.struct([("a", pa.int64()), ("b", pa.string())])),
    "map<string,long>": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
    "array<timestamp>": pa.array([[datetime(9999, 12, 31, tzinfo=UTC)]], pa.list_(pa.timestamp("us", "UTC"))),
}
"""The values of a frame by their type; each column ends with nulls."""


def frame_values() -> pa.Table:
    """All values in one table: the row `id`, and a column for each type."""
    length = max(map(len, VALUES.values())) + 1
    columns = [pa.concat_arrays([array, pa.nulls(length - len(array), array.type)]) for array in VALUES.values()]
    return pa.table([pa.array(range(length), pa.int64()), *columns], ["id", *(f"v{at}" for at in range(len(columns)))])


def read_back(world: World, name: str) -> Mapping[str, tuple[dict[str, Any], Callable[[str], pa.Table]]]:
    """Where each way writes the table `name`, with the options of that, and what reads it back."""
    folder = world.folder / "tables"
    return {
        "parquet": (
            {"target": str(folder / name)},
            lambda _: pyarrow.dataset.dataset(folder / name, exclude_invalid_files=False).to_table(),
        ),
        "s3": ({"target": f"s3://{world.bucket}/{name}"}, lambda _: _objects(world, name)),
        "delta": (
            {"target": str(folder / f"{name}.delta"), "format": "delta"},
            lambda _: DeltaTable(str(folder / f"{name}.delta")).to_pyarrow_table(),
        ),
        "iceberg": ({"target": f"corpus.{name}", "format": "iceberg"}, lambda _: _iceberg(world, f"corpus.{name}")),
    }


def _objects(world: World, prefix: str) -> pa.Table:
    listed = world.server.client.list_objects_v2(Bucket=world.bucket, Prefix=f"{prefix}/run=")["Contents"]
    keys = [each["Key"] for each in listed if each["Key"].endswith(".parquet")]
    bodies = [world.server.client.get_object(Bucket=world.bucket, Key=key)["Body"].read() for key in keys]
    return pa.concat_tables(parquet.read_table(io.BytesIO(body)) for body in bodies)


def _iceberg(world: World, name: str) -> pa.Table:
    return (
        load_catalog("ice", type="sql", uri=world.catalog_uri, warehouse=world.warehouse)
        .load_table(name)
        .scan()
        .to_arrow()
    )


def append(results: Results, world: World, way: str) -> None:
    """Append one frame with every value, and read the table back."""
    source = frame_values()
    name = f"append_{way}"
    options, reader = read_back(world, name)[way]
    schema = ", ".join(["id long", *(f"v{at} {kind}" for at, kind in enumerate(VALUES))])
    connection = {"connection": "ice"} if way == "iceberg" else {"connection": "lake"} if way == "s3" else {}
    try:
        world.run.append(
            world.run.spark.createDataFrame(source, schema), options.pop("target"), **options, **connection
        )
        table = reader(name).select(source.column_names).sort_by("id")
        written: list[tuple[Canonical, ...]] | str = rows_of(table)
    except Exception as error:  # noqa: BLE001 - of several libraries
        written = describe(error)
    results.add("table", f"append {way}", _compared(rows_of(source), written))


def _compared(source: list[tuple[Canonical, ...]], written: Any) -> Iterator[tuple[str, str, Verdict, str]]:
    for column, (kind, array) in enumerate(VALUES.items(), 1):
        for at in range(len(array) + 1):
            value = source[at][column]
            read = written if isinstance(written, str) else written[at][column] if at < len(written) else "no row"
            same = not isinstance(written, str) and len(written) == len(source) and read == value
            yield kind, shown(value)[:60], "equal" if same else "different", shown(read)


def ingest(world: World, way: str, inputs: Input, number: int) -> Reading:
    """What `builtin:ingest` loads of a file: the table's rows, and the bad records."""
    options = {"schema": inputs.schema, "input_format": inputs.source, "input_options": dict(inputs.options)}
    try:
        loaded, bad = ingested(
            world, way, f"ingest_{way}_{number}", options, files=[world.local(inputs, 100_000 + number)]
        )
    except Exception as error:  # noqa: BLE001 - of several libraries
        return Reading(refused=describe(error))
    types = None if inputs.schema else spelled(world.run.asset_store["corpus"].get("schema"))
    return Reading(rows=rows_of(loaded), bad=[(record, 1) for record in bad], types=types, counted=False)


def ingested(
    world: World, way: str, name: str, options: Mapping[str, Any], **extra: Any
) -> tuple[pa.Table, Sequence[str]]:
    """The table `name` that `builtin:ingest` makes of an event with `extra`, and the texts of its bad records."""
    target, reader = read_back(world, name)[way]
    bad = world.folder / "tables" / f"{name}_bad"
    run = world.run
    run.run_id = f"corpus__{name}"
    run.task_store.clear()
    run.asset_store["corpus"].delete("schema")
    run.triggering_asset_events = TriggeringAssetEvents(
        {"landing": [event(1, "landing", "2026-11-20T09:00:00Z", **extra)]}
    )
    every = {
        **target,
        **options,
        "bad_records": str(bad),
        "max_bad_records": "100%",
        "target_connection": "ice" if way == "iceberg" else None,
    }
    Ingest(run=run, options=IngestJobOptions.from_json(every)).execute()
    loaded = reader(name)
    records = pyarrow.dataset.dataset(bad, exclude_invalid_files=False).to_table() if bad.exists() else None
    texts = [] if records is None or not records.num_columns else records.column("_record").to_pylist()
    return loaded.select([field for field in loaded.schema.names if field != "run"]), texts


def ingest_all(results: Results, world: World, way: str, files: Mapping[str, Wide], alone: Sequence[Case]) -> None:
    """Load all groups of a source in one file, and each of the files `alone`."""
    for number, (source, wide) in enumerate(files.items()):
        results.add(source, f"ingest {way}", wide.verdicts(ingest(world, way, wide.input, number)))
    for number, case in enumerate(alone, len(files)):
        reading = ingest(world, way, case.input, number)
        results.add(case.input.source, f"ingest {way}", case.verdicts(reading))


def ingest_rows(world: World, way: str) -> Callable[[str, OnUnrepresentable], pa.Table]:
    """Loads a table of PostgreSQL by `builtin:ingest`, and reads what was written. Bad rows are rows of nulls."""

    def rows(table: str, mode: OnUnrepresentable) -> pa.Table:
        options = {"on_unrepresentable": mode, "connection": "shop"}
        loaded, bad = ingested(
            world, way, f"rows_{way}_{table}_{mode}", options, table=f"public.{table}", column="id", ranges=[[0, 1000]]
        )
        schema = (
            loaded.schema if loaded.num_columns else pa.schema([("id", pa.int64()), ("v", pa.null())])
        )  # no good row
        nulls = pa.table([pa.nulls(len(bad), each) for each in schema.types], schema=schema)
        return pa.concat_tables([loaded, nulls]) if loaded.num_columns else nulls

    return rows
