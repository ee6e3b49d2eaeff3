from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CalendarIntervalType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
    YearMonthIntervalType,
)

from asset_job import AssetJobError
from asset_job.errors import TargetFailed
from asset_job.sources.partition_folders import partition_values
from asset_job.tables.formats.local_table import LocalTable
from asset_job.tables.frames import check_frame
from asset_job.tables.layout import (
    Owner,
    TableLocation,
    TargetTable,
    check_columns,
    is_of_another_run,
    location_of,
    partition_aliases,
    partition_folder,
)

OUTLETS = {"orders": "file:///data/my%20orders/", "lake": "s3://lake/tables/orders/", "shop": "postgres://h/d/s/t"}


def owner(run_id: str = "manual__2026-11-20T09:00:00+00:00") -> Owner:
    return Owner(dag_id="load_orders", run_id=run_id, task_id="load", map_index=-1)


def test_a_run_has_one_folder():
    assert owner().part == "run=manual__2026-11-20T09.00.00+00.00"
    assert owner("by/hand:1").part == "run=by.hand.1"


def test_the_part_of_another_run_is_rejected():
    owner().check(None, "/data/orders")
    owner().check(
        {"dag_id": "load_orders", "run_id": owner().run_id, "task_id": "load", "map_index": -1}, "/data/orders"
    )
    for other in ({"dag_id": "load_more"}, {"run_id": "manual__2026-11-20T09.00.00+00.00"}):
        with pytest.raises(
            AssetJobError, match=r"of /data/orders was written by the job .*: give each job a target of its own"
        ):
            owner().check(other, "/data/orders")


@pytest.mark.parametrize(
    ("target", "place"),
    [
        ("orders", TableLocation(bucket=None, path="/data/my orders")),
        ("lake", TableLocation(bucket="lake", path="tables/orders")),
        ("/data/my%20orders/", TableLocation(bucket=None, path="/data/my%20orders")),
        ("file:///data/x", TableLocation(bucket=None, path="/data/x")),
        ("file:///data//./y/../x/", TableLocation(bucket=None, path="/data/x")),
        ("//data//x", TableLocation(bucket=None, path="/data/x")),
        ("s3a://lake/ü#x?", TableLocation(bucket="lake", path="ü#x?")),
        ("s3://lake", TableLocation(bucket="lake", path="")),
    ],
)
def test_targets_are_outlets_paths_and_urls(target, place):
    assert location_of(target, OUTLETS) == place


@pytest.mark.parametrize("target", ["shop", "elsewhere", "data/x", "", "/", "file:///", "s3:///x", "hdfs://n/x"])
def test_a_target_where_no_table_can_be_written_is_rejected(target):
    with pytest.raises(AssetJobError):
        location_of(target, OUTLETS)


def test_folders_of_partitions_are_named_as_in_spark():
    assert partition_folder(["day", "a b"], ["2026-11-20", "K/ö=%1"]) == "day=2026-11-20/a b=K%2Fö%3D%251"
    assert (
        partition_folder(["day", "city"], [None, ""])
        == "day=__HIVE_DEFAULT_PARTITION__/city=__HIVE_DEFAULT_PARTITION__"
    )
    assert partition_folder([], []) == ""


@given(st.dictionaries(st.text(min_size=1), st.text(min_size=1) | st.none(), min_size=1))
def test_the_folders_of_partitions_encode_their_values(values):
    folder = partition_folder(list(values), list(values.values()))
    assert partition_values(f"tables/orders/{folder}/part-0.parquet") == values


@pytest.mark.parametrize(
    ("path", "is_there"),
    [
        ("run=2/part-0.parquet", True),
        ("run=2/day=1/part-0.parquet", True),
        ("run=1/part-0.parquet", False),
        ("run=1.1/part-0.parquet", True),
        ("run=2/_run.json", False),
        ("_staging/run=2/x/part-0.parquet", False),
        ("elsewhere/part-0.parquet", False),
    ],
)
def test_files_of_other_runs_are_recognized(path, is_there):
    assert is_of_another_run(path, "run=1") is is_there


def test_columns_that_could_not_be_read_back_are_rejected():
    check_columns(["id", "day"], ["DAY"])
    unreadable = [(["id", "ID"], []), (["id", ""], []), (["id", "a\0"], []), (["id", "day"], ["day", "Day"])]
    for columns, partition_by in [(["id", "Run"], []), (["id"], ["day"]), (["day"], ["day"]), *unreadable]:
        with pytest.raises(AssetJobError):
            check_columns(columns, partition_by)


def test_no_column_has_the_name_of_a_text_to_partition_by():
    assert partition_aliases(["id"], ["day", "city"]) == ["_partition_0", "_partition_1"]
    assert partition_aliases(["_Partition_0", "__partition_x"], ["day"]) == ["___partition_0"]


def table(kind: str = "parquet") -> TargetTable:
    location = TableLocation(bucket=None, path="/data/orders")
    made = LocalTable(location=location, owner=owner(), attempt="a")
    return made if kind == "parquet" else type(kind, (LocalTable,), {"format": kind})(**vars(made))


ID = StructField("id", LongType())


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
@pytest.mark.parametrize(
    "part",
    [NullType(), DayTimeIntervalType(), YearMonthIntervalType(), CalendarIntervalType(), VariantType(), StructType()],
)
def test_a_type_that_tables_lack_is_refused_wherever_it_stands(kind, part):
    nested = ArrayType(StructType([StructField("x", MapType(StringType(), part))]))
    for each in (part, nested):
        with pytest.raises(
            TargetFailed, match=r"/data/orders cannot hold the column v, because tables have no type for"
        ):
            check_frame(StructType([ID, StructField("v", each)]), [], table(kind))


@pytest.mark.parametrize(
    ("part", "kinds"),
    [
        (DateType(), 3),
        (StringType(), 3),
        (DecimalType(3, 1), 2),
        (TimestampType(), 1),
        (DoubleType(), 0),
        (BinaryType(), 0),
    ],
)
def test_a_partition_is_told_by_a_text_that_says_the_same_everywhere(part, kinds):
    schema = StructType([ID, StructField("v", part)])
    for at, kind in enumerate(["iceberg", "parquet", "delta"]):
        if at < kinds:
            check_frame(schema, ["V"], table(kind))
        else:
            with pytest.raises(TargetFailed, match="cannot be partitioned by v of the type"):
                check_frame(schema, ["V"], table(kind))


def test_readers_of_parquet_skip_no_folder_of_a_partition():
    for name in ("_day", ".day"):
        schema = StructType([ID, StructField(name, StringType())])
        check_frame(schema, [name], table("delta"))
        with pytest.raises(TargetFailed, match="readers skip folders"):
            check_frame(schema, [name], table())
