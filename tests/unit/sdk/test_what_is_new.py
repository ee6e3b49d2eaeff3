"""What `r.read` reads for files, ranges and events, and how that is divided among tasks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asset_job import AssetJobError
from asset_job.errors import SourceFailed, describe, require, sentence_from
from asset_job.events import TriggeringAssetEvents
from asset_job.sources.request import LocalSourceFile, RowSelection, S3File, connection_of, items_of
from asset_job.sources.shares import SMALLEST_PART, merged, split_files, split_ranges
from tests.unit.sdk.execution_server import event

A = {"bucket": "landing", "key": "a.json", "size": 3, "etag": "1"}
RANGES = st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 9)).map(lambda one: (one[0], one[0] + one[1])))


def events(**assets: Any) -> TriggeringAssetEvents:
    return TriggeringAssetEvents(
        {name: [event(1, name, "2026-11-20T09:00:00Z", **more)] for name, more in assets.items()}
    )


def ids(ranges: list[tuple[int, int]]) -> list[int]:
    return [number for low, high in ranges for number in range(low, high + 1)]


def test_files_are_recognized_by_their_members():
    assert items_of([A, A], ()) == [S3File(bucket="landing", key="a.json", size=3, etag="1")]
    assert items_of([{"path": "/a", "size": 1}], ()) == [LocalSourceFile(path="/a", size=1)]
    assert items_of([], ()) == []


def test_a_moved_file_keeps_the_name_under_which_it_was_detected():
    moved = {**A, "key": "done/a.json", "etag": "2", "moved_from": "s3://landing/a.json"}
    [on_s3] = items_of([moved], ())
    assert (on_s3.name, on_s3.address, on_s3.etag) == ("s3://landing/a.json", "s3://landing/done/a.json", "2")
    [local] = items_of([{"path": "/done/dt=1/a.csv", "size": 1, "moved_from": "/in/dt=1/a.csv"}], ())
    assert (local.name, local.address, local.path) == ("/in/dt=1/a.csv", "/done/dt=1/a.csv", "/done/dt=1/a.csv")


def test_files_that_are_left_out_are_told_apart_from_those_of_the_events():
    of_run = TriggeringAssetEvents(
        {"landing": [event(1, "landing", "2026-11-20T09:00:00Z", files=[])]}, {"cleaned": [A]}
    )
    assert (of_run.files(), of_run.cleaned, of_run.superseded) == ([], [A], ())
    assert events(landing={"files": [A]}).cleaned == ()


def test_events_name_their_table():
    of_run = events(
        customers={"table": "public.customers", "column": "id", "ranges": [[1, 2]]},
        parts={"table": "public.parts", "column": "updated_at", "keys": [1, [2, "b"]]},
    )
    customers = RowSelection(table="public.customers", column="id", ranges=((1, 2),))
    assert items_of(of_run["customers"], ()) == customers
    assert items_of(of_run["parts"], ()) == RowSelection(table="public.parts", column="updated_at", keys=(1, (2, "b")))
    assert items_of(of_run.ranges(), [*of_run["customers"], *of_run["parts"]]) == customers


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([A, {"path": "/a"}], "some of these files are local and some are on S3"),
        (["a.json"], "r.read takes files, ranges of ids, or events"),
        ([(1, 2)], "name the table, as in r.read(…, table='public.orders'): the events name none"),
        (events(a={"files": [A]}, b={"table": "t", "column": "id", "ranges": []}), "read one asset's events at a time"),
        (
            events(
                a={"table": "public.a", "column": "id", "ranges": []},
                b={"table": "public.b", "column": "id", "ranges": []},
            ),
            "the events name public.a, public.b",
        ),
    ],
)
def test_a_mixture_of_items_is_rejected_with_a_sentence(given, sentence):
    with pytest.raises(AssetJobError) as refused:
        items_of(given, ())
    assert sentence in str(refused.value)


def test_ranges_of_a_table_that_no_event_names_select_by_id():
    assert items_of([(1, 2)], (), "public.orders") == RowSelection(table="public.orders", column="id", ranges=((1, 2),))


@given(RANGES)
def test_merged_ranges_hold_the_same_ids_once(ranges):
    found = merged(ranges)
    assert ids(found) == sorted(set(ids(ranges)))
    assert all(after[0] > before[1] + 1 for before, after in pairwise(found))


@given(RANGES, st.integers(1, 5), st.integers(1, 20), st.integers(1, 4))
def test_shares_of_ranges_hold_all_ids_once_and_no_share_is_too_large(ranges, tasks, most_ids, most_ranges):
    wanted = merged(ranges)
    shares = split_ranges(wanted, tasks=tasks, most_ids=most_ids, most_ranges=most_ranges)
    assert ids([limits for share in shares for limits in share]) == ids(wanted)
    assert all(share and len(share) <= most_ranges and len(ids(share)) <= most_ids for share in shares)


MOST = 128 << 20
SIZES = st.lists(st.integers(0, 1 << 30) | st.integers(0, 40 << 20))


def files_of(sizes: Sequence[int]) -> list[S3File]:
    return [S3File(bucket="b", key=str(at), size=size, etag="1") for at, size in enumerate(sizes)]


@given(SIZES, st.integers(1, 8))
def test_shares_hold_all_files_and_exceed_the_limit_by_one_file_at_most(sizes, tasks):
    files = files_of(sizes)
    shares = split_files(files, tasks=tasks, most=MOST, may_divide=lambda _: False)
    assert [file for share in shares for file in share] == files
    assert all(shares)
    bound = MOST + max(sizes, default=0)
    assert all(len(share) == 1 or sum(file.size for file in share) <= bound for share in shares)


@given(SIZES, st.integers(1, 300))
def test_files_are_divided_where_shares_end_and_each_byte_is_in_one_part(sizes, tasks):
    shares = split_files(files_of(sizes), tasks=tasks, most=MOST, may_divide=lambda _: True)
    parts = [part for share in shares for part in share]
    for number, size in enumerate(sizes):
        cuts = [part.part or (0, size) for part in parts if part.key == str(number)]
        assert [begin for begin, _ in cuts] + [size] == [0] + [end for _, end in cuts]
        assert len(cuts) == 1 or all(end - begin >= SMALLEST_PART for begin, end in cuts)
    costs = [sum(end - begin for begin, end in (part.part or (0, part.size) for part in share)) for share in shares]
    assert all(cost <= MOST + 2 * SMALLEST_PART for cost in costs), "what was not worth a cut goes to its neighbour"


def test_a_large_file_occupies_all_tasks_unless_it_may_not_be_divided():
    def parts(size: int, tasks: int, *, whole: bool = False) -> list[tuple[int, int] | None]:
        shares = split_files(files_of([size]), tasks=tasks, most=MOST, may_divide=lambda _: not whole)
        assert all(len(share) == 1 for share in shares)
        return [share[0].part for share in shares]

    assert parts(1 << 30, 2, whole=True) == parts(10 << 20, 2) == [None]
    assert len(parts(1 << 30, 2)) == 10
    assert len(parts(1 << 30, 100)) == 100
    assert len(parts(40 << 20, 100)) == 4, "a part has its price, too"


def test_only_a_file_that_would_be_cut_is_looked_into():
    files, asked = files_of([30 << 20] * 5), list[S3File]()

    def looked_into(file: S3File) -> bool:
        asked.append(file)
        return True

    shares = split_files(files, tasks=2, most=MOST, may_divide=looked_into)
    assert asked == [files[2]]
    assert [file.key for file in shares[0]] == ["0", "1", "2"]


def test_few_files_occupy_all_tasks_and_many_small_ones_share_them():
    def shares(count: int, size: int) -> int:
        return len(split_files(files_of([size] * count), tasks=4, most=MOST, may_divide=lambda _: False))

    assert shares(4, 10) == 4
    assert shares(1000, 10) in range(4, 20)
    assert shares(8, 100 << 20) == 8
    assert shares(10, 40 << 20) == 4, "not a fifth, for which three tasks would wait"


def test_the_only_connection_of_a_kind_needs_no_name():
    lake, cellar, shop = {"type": "s3", "region": "a"}, {"type": "s3", "region": "b"}, {"type": "postgres"}
    assert connection_of({"lake": lake, "shop": shop}, "s3", None) is lake
    assert connection_of({"lake": lake, "cellar": cellar}, "s3", "cellar") is cellar
    for connections, name, sentence in [
        ({"shop": shop}, None, "the job has no S3 connection: name one in its spark.connections"),
        ({"lake": lake, "cellar": cellar}, None, "by connection=: lake, cellar"),
        ({"lake": lake, "shop": shop}, "shop", "by connection=: lake"),
    ]:
        with pytest.raises(AssetJobError, match=sentence):
            connection_of(connections, "s3", name)


def test_the_sdks_sentence_is_extracted_from_sparks_report():
    trace = "PythonException: Traceback …\n  raise X\nasset_job.sources.s3_objects.FileUnreadable: s3://a/b was deleted\n\nat org…"
    assert sentence_from(trace) == "s3://a/b was deleted"
    assert str(sentence_from("x\nModuleNotFoundError: No module named 'obstore'\n")).startswith(
        "obstore is missing in the"
    )
    assert sentence_from("ValueError: No module named 'mine'") is None


class Py4JJavaError(Exception):
    """An exception as py4j raises it."""


def test_a_java_exception_is_described_without_its_trace():
    said = "An error occurred while calling o1.parquet.\n: org.apache.spark.SparkException: [FAILED] a.json SQLSTATE: KD001\n\tat x"
    assert describe(Py4JJavaError(said)) == "SparkException: [FAILED] a.json"
    assert describe(ValueError("a\n: b: c")) == "ValueError: a\n: b: c"


class PythonException(Exception):
    """An exception as PySpark raises it."""


def test_a_failure_in_a_task_is_described_without_its_wrappers():
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    1 // 0\n    ~~^^~~\nZeroDivisionError: by zero\n\nJVM stacktrace'
    assert (
        describe(PythonException(f"\n  An exception was thrown from the Python worker.\n{trace}"))
        == "ZeroDivisionError: by zero"
    )
    cause = java("EOFException", "Unexpected end")
    wrapped = java(
        "SparkException", "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///a.gz. ", cause
    )
    assert describe(Captured(wrapped)) == "EOFException: Unexpected end, in file:///a.gz"
    known = java(
        "SparkException", "[FAILED_READ_FILE.OTHER] Encountered error while reading file file:///a.gz. Why.", cause
    )
    assert describe(Captured(known)) == f"Captured: {known.getMessage()}"


def java(name, message, cause=None):
    """A Java throwable as py4j represents it."""
    kind = SimpleNamespace(getSimpleName=lambda: name)
    return SimpleNamespace(getMessage=lambda: message, getCause=lambda: cause, getClass=lambda: kind)


class Captured(Exception):
    """An exception of PySpark, which knows the throwable from which it was made."""

    def __init__(self, origin):
        super().__init__(origin.getMessage())
        self._origin = origin


def test_a_missing_package_is_named_with_the_remedies():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "obstore", None)
        with pytest.raises(SourceFailed, match=r"^obstore is missing in the .*: `.* -m pip install obstore`$"):
            require("pyarrow", "obstore")


INSERT = {"op": "insert", "key": 1, "lsn": "0/10", "xid": 7, "row": {"id": 1}}
DELETE = {"op": "delete", "key": 1, "lsn": "0/20", "xid": 8}


def test_changes_come_in_the_order_of_their_events():
    later = event(5, "customers", "2026-11-20T09:00:00Z", changes=[DELETE], keys=[], deleted=[1])
    of_run = TriggeringAssetEvents(
        {"customers": [later, event(4, "customers", "2026-11-20T09:00:00Z", changes=[INSERT])]}
    )
    assert of_run.changes() == of_run.changes("customers") == [INSERT, DELETE]


def test_an_event_without_changes_is_refused_by_name():
    of_run = events(customers={"changes": [INSERT]}, landing={"files": [A]})
    with pytest.raises(AssetJobError, match="the event 1 of landing has no changes: watch the table in mode: log"):
        of_run.changes()
    assert of_run.changes("customers") == [INSERT]


def test_the_rows_that_changes_leave_are_read_by_their_keys():
    of_run = events(
        customers={"table": "public.customers", "mode": "log", "changes": [INSERT], "keys": [1], "deleted": [2]}
    )
    assert items_of(of_run, ()) == RowSelection(table="public.customers", column="", keys=(1,))
