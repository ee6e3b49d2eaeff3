"""The decisions about what a try's commit does to a table, as cases without a real table."""

from __future__ import annotations

import pytest

from asset_job.errors import Fenced, TargetFailed
from asset_job.tables.columns import Columns, check_format, format_in
from asset_job.tables.layout import Owner
from asset_job.tables.replacement import Done, Record, Replace, Rewritten, WritingTry, plan

OWNER = Owner(dag_id="load", run_id="manual__1", task_id="load", map_index=-1)


def file(try_number: int, number: int, *, run_id: str = "manual__1", folder: str = "") -> str:
    owner = Owner(dag_id="load", run_id=run_id, task_id="load", map_index=-1)
    return f"{folder}{WritingTry(owner=owner, try_number=try_number).prefix}{number}.parquet"


OTHERS = [file(1, 0, run_id="manual__2"), file(9, 0, run_id="manual__2"), "part-00000-x.snappy.parquet"]
TWO = [file(1, 0), file(1, 100_000)]


@pytest.mark.parametrize(
    ("try_number", "record", "live", "decision"),
    [
        (1, None, [], Replace(frozenset())),
        (1, None, OTHERS, Replace(frozenset())),
        (2, Record(try_number=1, files=2), [*TWO, *OTHERS], Replace(frozenset(TWO))),
        (7, Record(try_number=1, files=2), TWO, Replace(frozenset(TWO))),
        (2, Record(try_number=1, files=0), OTHERS, Replace(frozenset())),
        (2, Record(try_number=1, files=1), [file(1, 5, folder="s3://b/t/data/")], Replace(frozenset([file(1, 5, folder="s3://b/t/data/")]))),
        (2, Record(try_number=2, files=2), [file(2, 0), file(2, 1)], Done()),
        (2, Record(try_number=2, files=0), OTHERS, Done()),
        (2, Record(try_number=2, files=2), [], Done()),
        (2, Record(try_number=1, files=2), [], Rewritten(frozenset())),
        (2, Record(try_number=1, files=2), TWO[:1], Rewritten(frozenset(TWO[:1]))),
        (3, Record(try_number=2, files=2), TWO, Rewritten(frozenset(TWO))),
        (2, Record(try_number=1, files=0), TWO, Rewritten(frozenset(TWO))),
        (2, None, TWO, Rewritten(frozenset(TWO))),
    ],
)  # fmt: skip
def test_the_record_in_the_table_decides_what_a_commit_does(try_number, record, live, decision):
    assert plan(WritingTry(owner=OWNER, try_number=try_number), record, live) == decision


@pytest.mark.parametrize(
    ("record", "live"),
    [
        (Record(try_number=2, files=1), [file(2, 0)]),
        (Record(try_number=2, files=0), []),
        (Record(try_number=2, files=0), OTHERS),
        (None, [file(2, 0)]),
    ],
)
def test_a_table_that_records_a_later_try_fences_an_earlier_one(record, live):
    with pytest.raises(Fenced, match="try 2 of this run"):
        plan(WritingTry(owner=OWNER, try_number=1), record, live)


def test_file_names_identify_the_task_instance_and_its_try():
    writer = WritingTry(owner=OWNER, try_number=3)
    assert writer.id == "load/manual__1/load/-1"
    assert writer.try_of(f"s3://bucket/table/{writer.prefix}12.parquet") == 3
    assert writer.try_of(file(3, 12, run_id="manual__2")) is None
    assert writer.try_of(f"{writer.digest[:16]}-x-1.parquet") is None


COLUMNS = Columns(types={"id": "long", "Day": "date", "run": "string"}, partition_by=["Day"])


@pytest.mark.parametrize(
    ("frame", "evolution", "added"),
    [
        ({"id": "long", "day": "date"}, "strict", []),
        ({"day": "date"}, "strict", []),
        ({"ID": "long", "day": "date", "colour": "string"}, "add_columns", ["colour"]),
    ],
)
def test_new_columns_are_added_and_missing_ones_are_accepted(frame, evolution, added):
    assert COLUMNS.added_by(frame, ["day"], evolution, "t") == added


@pytest.mark.parametrize(
    ("frame", "partition_by", "evolution", "sentence"),
    [
        ({"id": "long", "day": "date", "colour": "string"}, ["day"], "strict", "has no column colour: drop it from the frame, or append"),
        ({"id": "string", "day": "date"}, ["day"], "add_columns", "the column id of t has the type long, and the frame's column has string"),
        ({"id": "long", "day": "date"}, [], "strict", "t is partitioned by Day, not by nothing"),
        ({"id": "long", "day": "date"}, ["id"], "strict", "t is partitioned by Day, not by id"),
    ],
)  # fmt: skip
def test_a_frame_that_does_not_fit_is_rejected_with_a_sentence(frame, partition_by, evolution, sentence):
    with pytest.raises(TargetFailed, match=sentence):
        COLUMNS.added_by(frame, partition_by, evolution, "t")


def test_a_required_column_must_be_in_the_frame():
    columns = Columns(types={"id": "long", "name": "string"}, partition_by=[], required=frozenset({"name"}))
    with pytest.raises(TargetFailed, match="t requires the column name"):
        columns.added_by({"id": "long"}, [], "strict", "t")


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ([], None),
        (["_staging", ".hidden", "readme.txt"], None),
        (["_delta_log", "x.parquet"], "delta"),
        (["metadata", "data"], "iceberg"),
        (["run=manual__1"], "parquet"),
        (["part-0.parquet"], "parquet"),
    ],
)
def test_the_names_in_a_folder_determine_its_format(names, kind):
    assert format_in(names) == kind
    for wanted in ("delta", "parquet", "iceberg"):
        if kind in {None, wanted}:
            check_format(names, wanted, "t")
        else:
            with pytest.raises(
                TargetFailed, match=f"holds a table of the format {kind}, and {wanted} is to be written"
            ):
                check_format(names, wanted, "t")
