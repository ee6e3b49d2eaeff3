"""Answers for people before their width is known: rows of cells, or the properties of one thing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, Literal, TypeAlias

from watcher.cli.plain_text import harmless, moment

Kind: TypeAlias = Literal["id", "short", "text", "state", "state of a watcher"]
MOST_CHARACTERS: Final = 300
"""The largest number of characters of a text in a cell that is no sentence. The forms for programs have the whole text."""


@dataclass(frozen=True)
class Column:
    """What a column shows of a row.

    Ids and short values stay in one piece, so that they can be copied; a text is broken between words. A state has its color and
    its mark on a terminal.
    """

    value: Callable[[Any], Any]
    kind: Kind = "short"
    is_sentence: bool = False
    """Whether it is shown whole, however long it is: its end may be what to do."""


Columns: TypeAlias = Mapping[str, Column]
"""Columns by their headings."""


@dataclass(frozen=True, kw_only=True)
class Table:
    kinds: Mapping[str, Kind]
    """The cells of a row, by heading."""
    rows: Sequence[Sequence[str]]
    empty: str = ""
    """What stands instead of a table without rows: what will be there, and when. '': the headings alone."""


@dataclass(frozen=True, kw_only=True)
class Properties:
    """Names and values, one line each."""

    lines: Mapping[str, str]
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    """The names whose values are states."""


Readable: TypeAlias = str | Table | Properties


def ids(**members: str) -> Columns:
    """Return columns, by heading, that show a member of a row unchanged."""
    return {heading: Column(itemgetter(member), "id") for heading, member in members.items()}


def fields(**members: str) -> Columns:
    return {heading: Column(itemgetter(member)) for heading, member in members.items()}


def texts(**members: str) -> Columns:
    return {heading: Column(itemgetter(member), "text") for heading, member in members.items()}


def states(**members: str) -> Columns:
    return {heading: Column(itemgetter(member), "state") for heading, member in members.items()}


def sentences(**members: str) -> Columns:
    return {heading: Column(itemgetter(member), "text", is_sentence=True) for heading, member in members.items()}


def moments(**members: str) -> Columns:
    return {heading: Column(_moment_of(member)) for heading, member in members.items()}


def _moment_of(member: str) -> Callable[[Any], str | None]:
    return lambda row: moment(row[member])


def table(rows: Iterable[Any], columns: Columns, empty: str = "") -> Table:
    return Table(
        empty=empty,
        kinds={heading: column.kind for heading, column in columns.items()},
        rows=[[_cell(row, column) for column in columns.values()] for row in rows],
    )


def properties(of: Mapping[str, Any], kinds: Mapping[str, Kind] | None = None) -> Properties:
    """Return one thing as lines, one for each of its properties. Times are to the second."""
    return Properties(
        lines={harmless(name).replace("_", " "): _property(value) for name, value in of.items()}, kinds=kinds or {}
    )


def _property(value: Any) -> str:
    return _text((moment(value) if isinstance(value, str) else value) if value not in ([], {}) else None)


def _cell(row: Any, column: Column) -> str:
    text = _text(column.value(row))
    is_cut = column.kind == "text" and not column.is_sentence and len(text) > MOST_CHARACTERS
    return f"{text[:MOST_CHARACTERS]}…" if is_cut else text


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        return harmless(json.dumps(value, ensure_ascii=False))
    if isinstance(value, float):
        return f"{value:.1f}"
    return "-" if value is None else harmless(str(value))
