"""How statements become pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sql_pages import WIDTH, SqlPage, SqlStatement, compare_pages, laid_out, plan_lines

PLAN = {
    "Node Type": "ModifyTable",
    "Operation": "Update",
    "Relation Name": "run",
    "Total Cost": 8.2,
    "Plans": [{"Node Type": "Index Scan", "Relation Name": "run", "Index Name": "pk_run", "Plan Rows": 1}],
}
PAGE = SqlPage(name="end", when="It runs\n at the end.\n\nIt locks a row.", statement="SELECT 1")
LONG = ", ".join(f"column_{number}" for number in range(50))


def test_a_plan_shows_nodes_and_indexes_without_costs() -> None:
    assert [*plan_lines(PLAN)] == ["Update on run", "  Index Scan using pk_run on run"]


def test_a_cte_of_a_plan_has_its_name() -> None:
    node = {"Node Type": "CTE Scan", "CTE Name": "a", "Parent Relationship": "InitPlan", "Subplan Name": "CTE b"}
    assert [*plan_lines(node)] == ["CTE b: CTE Scan on a"]


def test_a_long_statement_is_broken_before_its_clauses() -> None:
    lines = [
        *laid_out(f"WITH t AS (SELECT {LONG} FROM b ORDER BY a FOR NO KEY UPDATE), u AS (SELECT 1) SELECT c FROM t")
    ]
    assert lines[0].startswith("WITH t AS (SELECT column_0,")
    assert lines[-6:] == [
        "  FROM b",
        "  ORDER BY a",
        "  FOR NO KEY UPDATE),",
        "u AS (SELECT 1)",
        "SELECT c",
        "FROM t",
    ]
    assert all(len(line) <= WIDTH for line in lines)


def test_a_page_begins_with_when_it_runs_and_shows_all_its_statements() -> None:
    page = SqlPage(
        name="two", when=PAGE.when, statement="SELECT 1", further=[SqlStatement(sql="SELECT 2", plan=["Result"])]
    )
    assert PAGE.text == "-- It runs at the end.\n--\n-- It locks a row.\nSELECT 1\n"
    assert page.text == PAGE.text.replace("SELECT 1", "SELECT 1;\n\nSELECT 2;\n\n-- Plan:\n-- Result")


def test_a_page_that_differs_is_refused_until_it_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WATCHER_TEST_WRITE_SQL", raising=False)
    (tmp_path / "end.sql").write_text("SELECT 2;\n")
    with pytest.raises(AssertionError, match="WATCHER_TEST_WRITE_SQL=1 writes them"):
        compare_pages(tmp_path, [PAGE])
    monkeypatch.setenv("WATCHER_TEST_WRITE_SQL", "1")
    compare_pages(tmp_path, [PAGE])
    monkeypatch.delenv("WATCHER_TEST_WRITE_SQL")
    compare_pages(tmp_path, [PAGE])


def test_another_version_of_the_server_may_plan_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WATCHER_TEST_WRITE_SQL", raising=False)
    here, there = (SqlPage(name="end", when="w", statement="SELECT 1", plan=[plan]) for plan in "ab")
    (tmp_path / "end.sql").write_text(here.text)
    compare_pages(tmp_path, [there], with_plans=False)
    with pytest.raises(AssertionError, match="out of date"):
        compare_pages(tmp_path, [there])
