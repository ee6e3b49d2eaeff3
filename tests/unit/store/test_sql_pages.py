"""How statements become pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import sql_pages
from tests.sql_pages import SqlPage, SqlStatement

PLAN = [
    {
        "Plan": {
            "Node Type": "ModifyTable",
            "Operation": "Update",
            "Relation Name": "run",
            "Total Cost": 8.2,
            "Plans": [{"Node Type": "Index Scan", "Relation Name": "run", "Index Name": "pk_run", "Plan Rows": 1}],
        }
    }
]
PAGE = SqlPage(
    name="end", purpose="It runs\n at the end.\n\nIt locks a row.", statements=[SqlStatement(sql="SELECT 1")]
)


def test_a_plan_shows_nodes_and_indexes_without_costs() -> None:
    assert sql_pages.plan_of(PLAN) == ["Update on run", "  Index Scan on run by pk_run"]


def test_clauses_have_lines_of_their_own_and_texts_in_quotes_stay_whole() -> None:
    sql = "WITH t AS \n(SELECT a \nFROM b ORDER BY a FOR NO KEY UPDATE)\n SELECT c FROM t WHERE c = 'x  ORDER BY y'"
    assert sql_pages.wrapped(sql).splitlines() == [
        "WITH t AS (SELECT a",
        "  FROM b",
        "  ORDER BY a",
        "  FOR NO KEY UPDATE)",
        "SELECT c FROM t",
        "WHERE c = 'x  ORDER BY y'",
    ]


def test_long_lines_are_broken() -> None:
    lines = sql_pages.wrapped("SELECT " + ", ".join(f"column_{number}" for number in range(50))).splitlines()
    assert len(lines) > 1
    assert all(len(line) <= sql_pages.WIDTH for line in lines)


def test_a_page_begins_with_its_purpose() -> None:
    assert PAGE.text == "-- It runs at the end.\n--\n-- It locks a row.\n\nSELECT 1;\n"


def test_a_page_that_differs_is_refused_until_it_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(sql_pages.WRITE, raising=False)
    with pytest.raises(AssertionError, match="needs one file for each page"):
        sql_pages.check(tmp_path, [PAGE])
    (tmp_path / "end.sql").write_text("SELECT 2;\n")
    with pytest.raises(AssertionError, match="WATCHER_TEST_WRITE_SQL=1 writes it anew"):
        sql_pages.check(tmp_path, [PAGE])
    monkeypatch.setenv(sql_pages.WRITE, "1")
    sql_pages.check(tmp_path, [PAGE])
    monkeypatch.delenv(sql_pages.WRITE)
    sql_pages.check(tmp_path, [PAGE])


def test_another_release_of_the_server_may_plan_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(sql_pages.WRITE, raising=False)
    here, there = (
        SqlPage(name="end", purpose="p", statements=[SqlStatement(sql="SELECT 1", plan=[plan])]) for plan in "ab"
    )
    (tmp_path / "end.sql").write_text(here.text)
    sql_pages.check(tmp_path, [there], with_plans=False)
    with pytest.raises(AssertionError, match="writes it anew"):
        sql_pages.check(tmp_path, [there])
