"""How many rows a watched table has, and how many of them `where` selects, as the server estimates it."""

from __future__ import annotations

import json
from typing import Any

from triggers.base import Finding
from triggers.postgres.sql import trial_of_condition
from triggers.postgres.table.examined_table import ExaminedTable


async def survey(table: ExaminedTable[Any], where: str | None = None) -> Finding:
    """Return the numbers as a finding. They cost two plans and one row, however large the table is."""
    name = table.options.table
    every_row = trial_of_condition(table.options.source, "")
    [row] = await table.fetch(f"SELECT EXISTS ({every_row}) AS has_rows")
    if not row["has_rows"]:
        return Finding.ok("rows", f"{name} is empty")
    number = f"{name} has about {await _planned(table, every_row):,} rows"
    if where is None:
        return Finding.ok("rows", number)
    selected = await _planned(table, trial_of_condition(table.options.source, where))
    return Finding.ok("rows", f"{number}, about {selected:,} of which fulfil `where`")


async def _planned(table: ExaminedTable[Any], statement: str) -> int:
    """Return the planner's estimate of the statement's rows. It is never 0."""
    [row] = await table.fetch(f"EXPLAIN (FORMAT JSON) {statement}")
    return int(json.loads(row[0])[0]["Plan"]["Plan Rows"])
