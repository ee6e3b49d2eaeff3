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
CLAUSES = re.compile(
    r" (?=FROM |WHERE |UNION ALL |ORDER BY |CROSS JOIN |LEFT JOIN |LEFT OUTER JOIN )|(?<!CROSS)(?<!LEFT)(?<!OUTER) (?=JOIN )"
    r"| (?=RETURNING |ON CONFLICT |VALUES )| (?=FOR (?:NO KEY UPDATE|UPDATE|KEY SHARE|SHARE)\b)|(?<=\),) (?=\w+ AS \()|(?<=\)) (?=SELECT )"
)
_PLAN = "-- Plan:"


@dataclass(frozen=True, kw_only=True)
class SqlStatement:
    """A statement as it is sent; `plan` has a line for each node, and none where plans vary."""

    sql: str
    plan: Sequence[str] = ()

    def text(self, end: str) -> str:
        plan = ["", _PLAN, *(f"-- {line}" for line in self.plan)] if self.plan else []
        return "\n".join(["\n".join(laid_out(self.sql)) + end, *plan])


@dataclass(frozen=True, kw_only=True)
class SqlPage:
    """One statement, and `further` ones that are sent with it.

    `when` says when they run, how often, and what they lock; an empty line divides its paragraphs. `plan` is of the first.
    """

    name: str
    when: str
    statement: str
    plan: Sequence[str] = ()
    further: Sequence[SqlStatement] = ()

    @property
    def statements(self) -> Sequence[SqlStatement]:
        return [SqlStatement(sql=self.statement, plan=self.plan), *self.further]

    @property
    def text(self) -> str:
        paragraphs = (wrap(" ".join(part.split()), WIDTH - 3) for part in self.when.strip().split("\n\n"))
        comments = "\n--\n".join("\n".join(f"-- {line}" for line in lines) for lines in paragraphs)
        end = ";" if self.further else ""
        return f"{comments}\n" + "\n\n".join(each.text(end) for each in self.statements) + "\n"


def compare_pages(folder: Path, pages: Sequence[SqlPage], *, with_plans: bool = True) -> None:
    """Assert that the folder holds exactly these pages; write them first if that is asked for.

    Without `with_plans` only the statements are compared: another version of the server may plan otherwise.
    """
    texts = {f"{page.name}.sql": page.text for page in pages}
    assert len(texts) == len(pages)
    for each in (statement for page in pages for statement in page.statements):
        assert without_space("".join(laid_out(each.sql))) == without_space(each.sql)
    if os.environ.get("WATCHER_TEST_WRITE_SQL"):
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("*.sql"):
            path.unlink()
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    written = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.sql")}
    if not with_plans:
        written, texts = ({name: without_plans(text) for name, text in each.items()} for each in (written, texts))
    assert written == texts, "the pages are out of date: WATCHER_TEST_WRITE_SQL=1 writes them"


def without_plans(text: str) -> str:
    return "\n\n".join(part for part in text.split("\n\n") if not part.startswith(_PLAN))


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
    does = plan["Operation"] if plan["Node Type"] == "ModifyTable" else plan["Node Type"]
    node = ["Scan" if is_catalog else does]
    if "Index Name" in plan and not is_catalog:
        node += ["using", plan["Index Name"]]
    node += [f"on {plan[key]}" for key in ("Relation Name", "CTE Name") if key in plan]
    kind, name = plan.get("Parent Relationship", ""), plan.get("Subplan Name", "")
    made = f"{name}: " if name.startswith("CTE ") else ""
    kind = f" ({kind})" if kind in {"InitPlan", "SubPlan"} and not made else ""
    yield "  " * depth + made + " ".join(node) + kind
    for below in plan.get("Plans", ()):
        yield from plan_lines(below, depth + 1)
