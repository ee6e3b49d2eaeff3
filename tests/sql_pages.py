"""SQL statements as pages for people: the statement as it is sent, what it is for, and its plan without costs.

A test renders pages and hands them to `check`. WATCHER_TEST_WRITE_SQL=1 writes the files instead of comparing them.
"""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

WRITE: Final = "WATCHER_TEST_WRITE_SQL"
WIDTH: Final = 110
_QUOTED: Final = re.compile(r"'(?:[^']|'')*'")
_CLAUSE: Final = re.compile(
    r"(?<=\)) (?=SELECT\b)| (?=(?:WHERE|VALUES|ON CONFLICT|RETURNING|GROUP BY|ORDER BY|LIMIT|UNION|FOR (?:NO KEY )?UPDATE|FOR (?:KEY )?SHARE)\b)"
)
_PLAN: Final = "-- Plan:"


@dataclass(frozen=True, kw_only=True)
class SqlStatement:
    """A statement as it is sent, and its plan as `plan_lines` gives it; no plan: none is shown."""

    sql: str
    plan: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class SqlPage:
    """A file: `purpose` says when the statements run, how often, and what they lock."""

    name: str
    purpose: str
    statements: Sequence[SqlStatement]

    @property
    def text(self) -> str:
        parts = [_comment(self.purpose)]
        for statement in self.statements:
            parts.append(f"{wrapped(statement.sql)};")
            if statement.plan:
                parts.append("\n".join([_PLAN, *(f"--   {line}" for line in statement.plan)]))
        return "\n\n".join(parts) + "\n"


def check(folder: Path, pages: Sequence[SqlPage], *, with_plans: bool = True) -> None:
    """Compare the folder's files with the pages, or write them. A file without a page fails.

    Without `with_plans` only the statements are compared: another release of the server may plan otherwise.
    """
    if os.environ.get(WRITE) == "1":
        folder.mkdir(parents=True, exist_ok=True)
        for page in pages:
            (folder / f"{page.name}.sql").write_text(page.text, encoding="utf-8")
    stored = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.sql")}
    rendered = {page.name: page.text for page in pages}
    assert stored.keys() == rendered.keys(), f"{folder} needs one file for each page"
    for name, text in rendered.items():
        here, now = (stored[name], text) if with_plans else (_without_plans(stored[name]), _without_plans(text))
        assert here == now, f"{name}.sql is not what is sent now; {WRITE}=1 writes it anew"


def _without_plans(text: str) -> str:
    return "\n\n".join(part for part in text.split("\n\n") if not part.startswith(_PLAN))


def plan_lines(node: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """A node of EXPLAIN (FORMAT JSON): what it does, on which relation and by which index, and below it the others."""
    does = node["Node Type"] if node["Node Type"] != "ModifyTable" else node["Operation"]
    named = [f"{node[key]}" for key in ("Subplan Name",) if key in node]
    on = [f"on {node[key]}" for key in ("Relation Name", "CTE Name", "Function Name") if key in node]
    by = [f"by {node['Index Name']}"] if "Index Name" in node else []
    yield "  " * depth + " ".join([*(f"{name}:" for name in named), does, *on, *by])
    for below in node.get("Plans", ()):
        yield from plan_lines(below, depth + 1)


def plan_of(explained: Any) -> Sequence[str]:
    """The lines of what EXPLAIN (FORMAT JSON) answers, decoded or as text."""
    (answer,) = json.loads(explained) if isinstance(explained, str) else explained
    return list(plan_lines(answer["Plan"]))


def wrapped(sql: str) -> str:
    """The statement in the lines that it has, with further clauses on lines of their own, and long lines broken.

    Texts in quotes stay whole.
    """
    texts = _QUOTED.findall(sql)
    lines: list[str] = []
    for line in _QUOTED.sub("\0", sql).replace("\n(", " (").split("\n"):
        lines += _CLAUSE.sub("\n", " ".join(line.split())).split("\n")
    depth = 0
    broken: list[str] = []
    for line in filter(None, lines):
        broken += _broken(line, "  " * depth)
        depth = max(depth + line.count("(") - line.count(")"), 0)
    parts = "\n".join(broken).split("\0")
    return "".join(part + text for part, text in zip(parts, [*texts, ""], strict=True))


def _broken(line: str, indent: str) -> Iterator[str]:
    return iter(
        textwrap.wrap(
            line,
            WIDTH,
            initial_indent=indent,
            subsequent_indent=f"{indent}    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def _comment(text: str) -> str:
    paragraphs = (textwrap.wrap(" ".join(part.split()), WIDTH) for part in text.strip().split("\n\n"))
    return "\n--\n".join("\n".join(f"-- {line}" for line in lines) for lines in paragraphs)
