"""The contract of tables that commit versions: a try replaces what its task instance wrote, and a superseded try writes nothing."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.expressions import EqualTo

from asset_job.errors import Fenced, TargetFailed
from asset_job.tables.parquet.data_files import DataFile
from tests.contract.tables import Delta, Iceberg, Kind, append, delta_in, delta_on, files_of, iceberg_on
from tests.iceberg_rest import running_catalog
from tests.servers import S3Server
from tests.service.conftest import bucket, s3_server

__all__ = ["bucket", "s3_server"]

FOLDERS = ["delta in a folder", "iceberg in a folder"]
ON_S3 = [pytest.param(name, marks=[pytest.mark.service, pytest.mark.slow]) for name in ("delta on s3", "iceberg on s3")]
on_s3 = pytest.mark.parametrize("kind", ON_S3, indirect=True)
on_s3_too = pytest.mark.parametrize("kind", [*FOLDERS, "iceberg by REST", *ON_S3], indirect=True)
"""Also on S3 and by REST, for tests in which storage or catalog make a difference."""


@pytest.fixture(params=FOLDERS)
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kind]:
    if request.param == "iceberg by REST":
        with running_catalog(tmp_path, warehouse=(tmp_path / "warehouse").as_uri()) as address:
            yield Iceberg(folder=tmp_path, rest=address)
    else:
        yield kind_of(request, tmp_path)


def kind_of(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    if request.param == "delta on s3":
        return delta_on(request.getfixturevalue("s3_server"), request.getfixturevalue("bucket"))
    if request.param == "iceberg on s3":
        servers = request.getfixturevalue("s3_server"), request.getfixturevalue("bucket")
        return iceberg_on(*servers, tmp_path / "warehouse")
    if request.param == "iceberg in a folder":
        return Iceberg(folder=tmp_path / "warehouse")
    return delta_in(str(tmp_path / "a ü b" / "orders"))


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "amount": pa.array([n / 2 for n in ids], pa.float64())})


NONE = rows()


@pytest.fixture
def fenced() -> Callable[[], None]:
    def refuse() -> None:
        raise Fenced("The try is superseded.")

    return refuse


@on_s3_too
def test_each_try_replaces_what_its_run_wrote_and_nothing_else(kind: Kind) -> None:
    append(kind.table("manual__1", 1), rows(1, 2, 3))
    append(kind.table("manual__2", 1), rows(10))
    assert kind.ids() == [1, 2, 3, 10]
    append(kind.table("manual__1", 2), rows(2))
    assert kind.ids() == [2, 10]
    append(kind.table("manual__1", 3), NONE)
    assert kind.ids() == [10]
    append(kind.table("manual__1", 7), rows(5, 6))
    assert kind.ids() == [5, 6, 10]
    assert kind.by_duckdb().sort_by("id").to_pylist() == [
        {"id": 5, "amount": 2.5, "run": "manual__1"},
        {"id": 6, "amount": 3.0, "run": "manual__1"},
        {"id": 10, "amount": 5.0, "run": "manual__2"},
    ]


def test_a_commit_has_the_name_that_readers_know(kind: Kind) -> None:
    names = []
    for number in range(3):
        table = kind.table(f"manual__{number}", 1)
        table.prepare()
        files = files_of(table, rows(number))
        names.append(table.replace(files))
        version = table.load()
        assert version is not None
        source = version.source
        assert names[-1] == str(source.version() if isinstance(kind, Delta) else source.current_snapshot().snapshot_id)
    assert len(set(names)) == 3
    assert table.replace(files) is None, "it was committed before"


@on_s3_too
def test_a_commit_whose_response_was_lost_is_not_repeated(kind: Kind) -> None:
    table = kind.table("manual__1", 1)
    files = files_of(table, rows(1, 2))
    table.replace(files)
    table.replace(files)
    assert kind.ids() == [1, 2]


def test_rows_for_a_table_that_was_dropped_are_not_silently_lost(kind: Kind) -> None:
    table = kind.table("manual__1", 1)
    files = files_of(table, rows(1))
    kind.drop()
    with pytest.raises(TargetFailed, match="was dropped while the run wrote to it: retry the run"):
        table.replace(files)
    table.replace([])


def test_a_try_that_was_started_twice_by_hand_is_rejected(kind: Kind) -> None:
    append(kind.table("local__1", 1), rows(1))
    again = kind.table("local__1", 1)
    [file] = files_of(again, rows(2))
    with pytest.raises(TargetFailed, match="has rows of try 1 of the run local__1 already"):
        again.replace([replace(file, name=f"{again.writer.prefix}99.parquet")])


@pytest.mark.parametrize("later", [rows(7), NONE], ids=["with rows", "without rows"])
@pytest.mark.parametrize("earlier", [0, 2], ids=["at first", "after another"])
def test_a_driver_that_is_superseded_after_the_daemon_answered_adds_no_row(
    kind: Kind, later: pa.Table, earlier: int
) -> None:
    """The driver is stopped between the answer and its commit, the next try finishes, and then the driver continues."""
    append(kind.table("manual__0", 1), rows(99))
    if earlier:
        append(kind.table("manual__1", earlier), rows(50, 51))
    asked: list[int] = []

    def meanwhile() -> None:
        asked.append(1)
        if len(asked) == 1:
            append(kind.table("manual__1", earlier + 2), later)

    with pytest.raises(Fenced, match=f"try {earlier + 2} of this run has written"):
        append(kind.table("manual__1", earlier + 1, ask=meanwhile), rows(1, 2))
    assert kind.ids() == sorted([*later["id"].to_pylist(), 99])
    with pytest.raises(Fenced):
        append(kind.table("manual__1", earlier + 1), rows(1, 2))
    assert kind.ids() == sorted([*later["id"].to_pylist(), 99])


@pytest.mark.parametrize("kind", ["iceberg by REST", *ON_S3], indirect=True)
def test_a_superseded_driver_adds_no_row_on_s3_or_by_rest(kind: Kind) -> None:
    test_a_driver_that_is_superseded_after_the_daemon_answered_adds_no_row(kind, rows(7), 2)


def test_a_commit_that_the_daemon_refuses_changes_nothing(kind: Kind, fenced: Callable[[], None]) -> None:
    append(kind.table("manual__1", 1), rows(1))
    with pytest.raises(Fenced, match="superseded"):
        append(kind.table("manual__1", 2, ask=fenced), rows(2))
    assert kind.ids() == [1]


@on_s3_too
def test_runs_can_append_at_the_same_time(kind: Kind) -> None:
    append(kind.table("manual__0", 1), rows(0))
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            append(kind.table(f"manual__{number}", 1), rows(number))
            append(kind.table(f"manual__{number}", 2), rows(number, number + 100))
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=[number]) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert kind.ids() == sorted([0, *range(1, 5), *range(101, 105)])


def test_a_commit_that_always_conflicts_fails_with_a_sentence(kind: Kind) -> None:
    append(kind.table("manual__0", 1), rows(0))
    others = iter(range(1, 100))

    def another_run_is_quicker() -> None:
        append(kind.table(f"manual__{next(others)}", 1), NONE)

    with pytest.raises(TargetFailed, match="was changed by other writers at each of 10 attempts"):
        append(kind.table("mine", 1, ask=another_run_is_quicker), rows(1))
    assert kind.ids() == [0]
    assert next(others) == 11


def everything(*ids: int) -> pa.Table:
    moment = dt.datetime(2026, 11, 20, 9, 30, 0, 123456, tzinfo=dt.UTC)
    columns = {
        "id": pa.array(ids, pa.int64()),
        "small": pa.array([n % 7 for n in ids], pa.int16()),
        "name": pa.array([None if n == 3 else f"name {n} ü" for n in ids], pa.string()),
        "amount": pa.array([Decimal(f"{n}.25") for n in ids], pa.decimal128(12, 2)),
        "rate": pa.array([float("nan") if n == 2 else n / 4 for n in ids], pa.float64()),
        "ok": pa.array([n % 2 == 0 for n in ids], pa.bool_()),
        "day": pa.array([dt.date(2026, 11, n) for n in ids], pa.date32()),
        "ts": pa.array([moment + dt.timedelta(days=n) for n in ids], pa.timestamp("us", "UTC")),
        "naive": pa.array([moment.replace(tzinfo=None)] * len(ids), pa.timestamp("us")),
        "blob": pa.array([b"\x00\xff"] * len(ids), pa.binary()),
        "tags": pa.array([["a", None], []] * (len(ids) // 2), pa.list_(pa.string())),
        "place": pa.array([{"city": "Köln", "zip": n} for n in ids], pa.struct([("city", pa.string()), ("zip", pa.int32())])),
        "region": pa.array([None if n == 4 else f"r/{n % 2}=x" for n in ids], pa.string()),
    }  # fmt: skip
    return pa.table(columns)


def in_order(table: pa.Table) -> list[dict[str, object]]:
    """The rows ordered by id, with their columns ordered by name, and NaN as text, because it does not equal itself."""
    found = sorted(table.to_pylist(), key=lambda row: row["id"])
    return [{name: "NaN" if row[name] != row[name] else row[name] for name in sorted(row)} for row in found]


@pytest.mark.parametrize("partition_by", [[], ["region"], ["day", "small"]], ids=["whole", "by text", "by two"])
def test_every_column_is_read_back_as_it_was_written(kind: Kind, partition_by: list[str]) -> None:
    append(kind.table("manual__1", 1), everything(1, 2, 3, 4), partition_by)
    append(kind.table("manual__2", 1), everything(5, 6), partition_by)
    append(kind.table("manual__1", 2), everything(2, 3, 4, 7), partition_by)
    written = in_order(everything(2, 3, 4, 7, 5, 6))
    written = [row | {"run": "manual__2" if row["id"] in {5, 6} else "manual__1"} for row in written]
    written = [{name: row[name] for name in sorted(row)} for row in written]
    assert in_order(kind.by_library()) == written
    by_duckdb = in_order(kind.by_duckdb())
    assert [{**row, "ts": row["ts"].astimezone(dt.UTC)} for row in by_duckdb] == written  # type: ignore[attr-defined]


@on_s3
def test_every_column_is_read_back_from_s3(kind: Kind) -> None:
    test_every_column_is_read_back_as_it_was_written(kind, ["region"])  # with signs that folders cannot have


def test_a_new_column_is_added_on_request(kind: Kind) -> None:
    append(kind.table("manual__1", 1), rows(1))
    wider = rows(2).append_column("colour", pa.array(["red"]))
    with pytest.raises(
        TargetFailed, match="has no column colour: drop it from the frame, or append with schema_evolution"
    ):
        append(kind.table("manual__2", 1), wider)
    append(kind.table("manual__2", 1, evolution="add_columns"), wider)
    append(kind.table("manual__3", 1), rows(3))
    assert [warning.rpartition("got")[2] for warning in kind.warnings] == [" the new column colour"]
    for seen in (kind.by_library(), kind.by_duckdb()):
        colours = {row["id"]: row["colour"] for row in seen.to_pylist()}
        assert colours == {1: None, 2: "red", 3: None}


@pytest.mark.parametrize("evolution", ["strict", "add_columns"])
def test_a_changed_type_is_rejected(kind: Kind, evolution: str) -> None:
    append(kind.table("manual__1", 1), rows(1))
    changed = pa.table({"id": ["two"], "amount": [1.0]})
    with pytest.raises(TargetFailed, match=r"the column id of .* and the frame's column has string: cast it"):
        append(kind.table("manual__2", 1, evolution=evolution), changed)
    assert kind.ids() == [1]


def test_another_partitioning_is_rejected(kind: Kind) -> None:
    append(kind.table("manual__1", 1), everything(1, 2), ["day"])
    with pytest.raises(TargetFailed, match="is partitioned by day, not by nothing"):
        append(kind.table("manual__2", 1), everything(3, 4))
    assert kind.ids() == [1, 2]


def delta(tmp_path: Path) -> Delta:
    return delta_in(str(tmp_path / "orders"))


def test_rewritten_rows_are_not_replaced_until_they_are_deleted(tmp_path: Path) -> None:
    kind = delta(tmp_path)
    append(kind.table("manual__1", 1), rows(1, 2))
    append(kind.table("manual__2", 1), rows(3))
    kind.open().optimize.compact()
    version = kind.open().version()
    sentence = (
        r"rows of the run manual__1 in .* were rewritten by others .* WHERE run = 'manual__1'\), then clear the run"
    )
    with pytest.raises(TargetFailed, match=sentence):
        append(kind.table("manual__1", 2), rows(1))
    assert kind.open().version() == version
    kind.open().delete("run = 'manual__1'")
    append(kind.table("manual__1", 2), rows(1))
    assert kind.ids() == [1, 3]
    append(kind.table("manual__1", 3), NONE)
    kind.open().optimize.compact()
    append(kind.table("manual__1", 4), rows(7))
    assert kind.ids() == [3, 7], "a run that wrote nothing was not rewritten"


def test_an_existing_table_keeps_its_columns(tmp_path: Path) -> None:
    kind = delta(tmp_path)
    write_deltalake(kind.url, rows(1))
    append(kind.table("manual__1", 1), rows(2))
    append(kind.table("manual__1", 2), rows(3))
    assert sorted(kind.by_duckdb().to_pylist(), key=lambda row: row["id"]) == rows(1, 3).to_pylist()
    kind.open().optimize.compact()
    with pytest.raises(TargetFailed, match="the table has no column `run` that tells which they are"):
        append(kind.table("manual__1", 3), rows(4))


def test_checkpoints_keep_the_record_of_tries(tmp_path: Path) -> None:
    kind = delta(tmp_path)
    append(kind.table("manual__1", 3), rows(1))
    kind.open().create_checkpoint()
    (tmp_path / "orders" / "_delta_log" / "00000000000000000000.json").unlink()
    with pytest.raises(Fenced):
        append(kind.table("manual__1", 2), rows(2))
    append(kind.table("manual__1", 4), rows(4))
    assert kind.ids() == [4]


def test_a_table_that_only_spark_can_write_is_rejected_with_a_sentence(tmp_path: Path) -> None:
    kind = delta(tmp_path)
    append(kind.table("manual__1", 1), rows(1))
    kind.open().alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(
        TargetFailed, match=r"has .*delta.constraints.positive.*, which only Spark with Delta's jars can"
    ):
        append(kind.table("manual__2", 1), rows(-1))
    with pytest.raises(TargetFailed, match="takes % for an escape"):
        append(delta_in(str(tmp_path / "50%")).table("manual__1", 1), rows(1))
    (tmp_path / "parts" / "run=manual__1").mkdir(parents=True)
    with pytest.raises(TargetFailed, match="holds a table of the format parquet, and delta is to be written"):
        append(delta_in(str(tmp_path / "parts")).table("manual__1", 1), rows(1))


def test_the_log_has_the_smallest_and_largest_values_of_files(tmp_path: Path) -> None:
    kind = delta(tmp_path)
    append(kind.table("manual__1", 1), everything(1, 3, 4, 5))
    [file] = pa.table(kind.open().get_add_actions(flatten=True)).to_pylist()
    assert (file["num_records"], file["null_count.name"], file["null_count.run"]) == (4, 1, 0)
    assert (file["min.id"], file["max.id"], file["max.day"]) == (1, 5, dt.date(2026, 11, 5))
    assert (file["min.name"], file["max.name"], file["min.amount"]) == ("name 1 ü", "name 5 ü", Decimal("1.25"))
    assert (file["max.ts"], file["max.rate"]) == (everything(5, 5)["ts"][0].as_py(), 1.25)


def test_a_file_with_a_value_that_delta_cannot_bound_has_no_bounds_at_all(tmp_path: Path) -> None:
    kind, late = delta(tmp_path), pa.array([0, 253_402_300_800_000_000], pa.timestamp("us", "UTC"))
    append(kind.table("manual__1", 1), pa.table({"id": [1, 2], "ts": late}))
    [file] = pa.table(kind.open().get_add_actions(flatten=True)).to_pylist()
    assert (file["num_records"], file.get("max.id"), file.get("max.ts"), file.get("min.ts")) == (2, None, None, None)
    assert kind.by_library()["ts"].cast(pa.int64()).to_pylist() == late.cast(pa.int64()).to_pylist()


@pytest.mark.parametrize("mode", ["none", "counts"])
def test_rows_are_in_their_partition_whatever_metrics_a_table_keeps(tmp_path: Path, mode: str) -> None:
    kind = Iceberg(folder=tmp_path / "warehouse")
    append(kind.table("manual__1", 1), everything(1, 2), ["region"])
    with kind.open().transaction() as transaction:
        transaction.set_properties({"write.metadata.metrics.default": mode})
    append(kind.table("manual__2", 1), everything(5, 7), ["region"])
    assert kind.open().scan(row_filter="region = 'r/1=x'").to_arrow()["id"].to_pylist() == [5, 7, 1]


@pytest.mark.service
def test_the_probe_of_a_store_leaves_nothing(s3_server: S3Server, bucket: str) -> None:
    append(delta_on(s3_server, bucket).table("manual__1", 1), rows(1))
    keys = [item["Key"] for item in s3_server.client.list_objects_v2(Bucket=bucket)["Contents"]]
    assert [key for key in keys if key.endswith(".json")] == [f"tables/orders/_delta_log/{n:020}.json" for n in (0, 1)]
    assert not [key for key in keys if "probe" in key]


def test_a_null_in_a_column_that_may_not_be_null_is_rejected(tmp_path: Path) -> None:
    kind = delta(tmp_path)
    strict = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("amount", pa.float64())])
    write_deltalake(kind.url, rows(1).cast(strict))
    with pytest.raises(TargetFailed, match="requires the column id, which is null in some rows: fill it"):
        append(kind.table("manual__1", 1), pa.table({"id": pa.array([2, None], pa.int64()), "amount": [1.0, 2.0]}))
    assert kind.ids() == [1]


def test_a_new_table_may_have_nulls_where_its_first_rows_have_none(kind: Kind) -> None:
    strict = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("amount", pa.float64(), nullable=False)])
    append(kind.table("manual__1", 1), rows(1).cast(strict))
    append(kind.table("manual__2", 1), pa.table({"id": [2], "amount": pa.array([None], pa.float64())}))
    assert kind.ids() == [1, 2]


def test_partitions_are_the_same_after_a_file_was_described_in_json(tmp_path: Path) -> None:
    kind, moment = Iceberg(folder=tmp_path), dt.datetime(2026, 11, 26, tzinfo=dt.UTC)
    given = pa.table({
        "id": [1, 2],
        "größe": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
        "ts": pa.array([moment, None], pa.timestamp("us", "UTC")),
    })  # fmt: skip
    table = kind.table("manual__1", 1)
    files = files_of(table, given, ["größe", "ts"])
    described = json.loads(json.dumps([asdict(file) for file in files], default=str))
    table.replace([DataFile.from_json(file) for file in described])
    assert kind.by_library().select(["id", "größe", "ts"]).sort_by("id").to_pylist() == given.to_pylist()
    assert kind.by_duckdb().sort_by("id")["größe"].to_pylist() == [Decimal("1.50"), None]
    equal: Any = EqualTo
    assert kind.open().scan(row_filter=equal("größe", Decimal("1.50"))).to_arrow()["id"].to_pylist() == [1]
