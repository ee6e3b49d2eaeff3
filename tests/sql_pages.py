"""Pages of `docs/sql`: a statement as it is sent, when it runs and how often, and its plan.

`WATCHER_TEST_WRITE_SQL=1` makes the tests write the pages instead of comparing them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

WIDTH = 120
LAID_OUT = 160
"""A statement without a longer line is shown as it is written in the code."""
CLAUSES = re.compile(r" (?=FROM |WHERE |UNION ALL |ORDER BY |CROSS JOIN |LEFT JOIN )|(?<!CROSS)(?<!LEFT) (?=JOIN )")


@dataclass(frozen=True, kw_only=True)
class SqlPage:
    """One statement. `when` says when it runs and how often; `plan` has a line for each node, and none where plans vary."""

    name: str
    when: str
    statement: str
    plan: Sequence[str] = ()

    @property
    def text(self) -> str:
        comments = [f"-- {line}" for line in wrap(self.when, WIDTH - 3)]
        plan = ["", "-- Plan:", *(f"-- {line}" for line in self.plan)] if self.plan else []
        return "\n".join([*comments, *laid_out(self.statement), *plan, ""])


def compare_pages(folder: Path, pages: Sequence[SqlPage]) -> None:
    """Assert that the folder holds exactly these pages; write them first if that is asked for."""
    texts = {f"{page.name}.sql": page.text for page in pages}
    assert len(texts) == len(pages)
    for page in pages:
        assert without_space("".join(laid_out(page.statement))) == without_space(page.statement)
    if os.environ.get("WATCHER_TEST_WRITE_SQL"):
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("*.sql"):
            path.unlink()
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    written = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.sql")}
    assert written == texts, "the pages are out of date: WATCHER_TEST_WRITE_SQL=1 writes them"


def without_space(text: str) -> str:
    return "".join(text.split())


def laid_out(statement: str) -> Iterator[str]:
    """Break a statement of long lines before its clauses, and indent what stands in parentheses; only white space changes."""
    lines = statement.strip().splitlines()
    if max(map(len, lines)) <= LAID_OUT:
        yield from (line.rstrip() for line in lines)
        return
    depth = 0
    for clause in CLAUSES.split(" ".join(statement.split())):
        margin = "  " * depth
        yield from wrap(
            clause,
            WIDTH,
            initial_indent=margin,
            subsequent_indent=margin + "    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        depth += clause.count("(") - clause.count(")")


def plan_lines(plan: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """Describe a plan of `EXPLAIN (FORMAT JSON)` by its nodes, their indexes and relations."""
    is_catalog = plan.get("Relation Name", "").startswith("pg_")  # how it is scanned depends on the database's age
    node = ["Scan" if is_catalog else plan["Node Type"]]
    if "Index Name" in plan and not is_catalog:
        node += ["using", plan["Index Name"]]
    if "Relation Name" in plan:
        node += ["on", plan["Relation Name"]]
    kind = plan.get("Parent Relationship", "")
    yield "  " * depth + " ".join(node) + (f" ({kind})" if kind in {"InitPlan", "SubPlan"} else "")
    for below in plan.get("Plans", ()):
        yield from plan_lines(below, depth + 1)
