"""Events and runs are a few words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from watcher.host.event_words import event_in_words, item_in_words, run_in_words, size_in_words, why_in_words

OWN = {"watcher": "orders_files", "event_id": "a" * 64, "watermark": {"up_to": 1}}
FILES = [{"key": f"orders/{number:03}.json", "size": 900, "etag": "x" * 32} for number in range(49, 57)]


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({**OWN, "count": 8, "files": FILES}, "8 files, 7.2 kB: orders/049.json and 7 more"),
        ({**OWN, "count": 1, "files": [{"path": "/in/a.csv", "size": 1}]}, "1 file, 1 byte: /in/a.csv"),
        ({"files": [{"key": "a"}, {"key": "b", "size": 2}]}, "2 files: a and 1 more"),
        ({"files": [{"key": "_SUCCESS", "size": 0}], "last": True}, "the last of its kind, 1 file, 0 bytes: _SUCCESS"),
        ({**OWN, "count": 12, "ranges": [[5, 16]]}, "12 rows: ids 5 to 16"),
        ({"ranges": [[5, 5], [7, 9], [11, 11]]}, "5 rows: id 5 and 2 more ranges"),
        ({"ranges": [[7, 7]], "count": 1, "rows": [{"id": 7}]}, "1 row: id 7"),
        ({"keys": [["eu", 5], ["eu", 6]], "deleted": [["eu", 4]]}, '3 rows, 1 deleted: ["eu", 5] and 2 more'),
        ({"changes": [{"op": "insert"}] * 3, "keys": [5], "deleted": []}, "3 changes: 5"),
        ({"row_count": 12, "up_to": "2026-01-31"}, "row_count 12, up_to 2026-01-31"),
        ({"a": 1, "b": [2], "c": None, "d": 4, "e": 5}, "a 1, b [2], c null and 2 more"),
        ({}, "no details"),
        ({**OWN, "count": 3}, "3 items"),
        ({"files": [{"key": "a", "size": 10**400}]}, "1 file: a"),
        ({"files": "no list", "ranges": None}, "files no list, ranges null"),
        ({"ranges": ["odd", [1]]}, "0 rows: odd and 1 more range"),
    ],
)
def test_an_event_is_one_line_of_words(extra: dict[str, Any], words: str) -> None:
    assert event_in_words(extra) == words


@pytest.mark.parametrize(
    ("member", "item", "words"),
    [
        ("files", {"key": "orders/049.json", "size": 900}, "orders/049.json"),
        ("files", {"path": "/in/a.csv"}, "/in/a.csv"),
        ("files", "a.csv", "a.csv"),
        ("ranges", [5, 16], "ids 5 to 16"),
        ("ranges", [5, 5], "id 5"),
        ("ranges", ["odd"], "odd"),
        ("keys", [5, 16], "5, 16"),
        ("keys", 7, "7"),
        ("changes", {"op": "delete", "key": 0}, "delete of 0"),
        ("changes", {"op": "insert", "key": ["eu", 5]}, "insert of eu, 5"),
        ("changes", {"op": "truncate"}, "truncate"),
        ("rows", {"id": 7, "name": None}, "id 7, name null"),
        ("rows", {}, "{}"),
        ("rows", [], "[]"),
    ],
)
def test_an_item_is_a_few_words(member: str, item: Any, words: str) -> None:
    assert item_in_words(member, item) == words


def test_of_a_long_name_of_a_file_the_end_is_shown() -> None:
    files = [{"key": f"{'region/' * 20}orders/049.json", "size": 900}, {"key": "x", "size": 100}]
    assert event_in_words({"files": files}, longest=15) == "2 files, 1 kB: …orders/049.json and 1 more"


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (7_200, "7.2 kB"),
        (999_600, "1 MB"),
        (41 * 10**9, "41 GB"),
        (10**20, "100000 PB"),
    ],
)
def test_sizes_have_the_unit_that_fits(size: int, words: str) -> None:
    assert size_in_words(size) == words


NOW = datetime(2026, 11, 20, 0, 5, tzinfo=UTC)


def test_a_run_is_named_by_when_and_why() -> None:
    assert run_in_words("asset_triggered", NOW, NOW) == "today 00:05:00 UTC, by events"
    yesterday = datetime(2026, 11, 19, 23, 59, 58, tzinfo=UTC)
    assert (
        run_in_words("manual", yesterday, NOW, "2026-11-19") == "yesterday 23:59:58 UTC, by hand, partition 2026-11-19"
    )
    assert run_in_words("brand_new", datetime(2026, 1, 2, tzinfo=UTC), NOW) == "2026-01-02 00:00:00 UTC, brand new"


def test_a_run_by_events_names_their_assets_where_they_are_known() -> None:
    assert why_in_words("asset_triggered", None, {"orders": 1}) == "1 event of orders"
    assert why_in_words("asset_triggered", "eu", {"b": 2, "a": 1}) == "3 events of a and b, partition eu"
    assert why_in_words("scheduled", None, dict.fromkeys("abc", 500)) == "1,500 events of 3 assets"
