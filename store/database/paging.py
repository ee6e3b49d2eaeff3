"""What lists share: pages, orders, and Airflow's patterns for names.

A `*_pattern` matches anywhere in the text, whatever the case: `%` stands for any characters, `_` for one, `a|b` means
either, `~` all. A `*_prefix_pattern` matches the text's beginning, literally and with its case; `|` and `~` have the
same meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import ge, gt, le, lt
from typing import Any, Final, Generic, TypeVar

from sqlalchemy import ColumnElement, Executable, RowMapping, Select, and_, false, func, or_, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.column_types import database_now
from store.errors import StoreError

T = TypeVar("T")
_ALL: Final = "~"
_BOUNDS: Final = {"gte": ge, "gt": gt, "lte": le, "lt": lt}


@dataclass(frozen=True, kw_only=True)
class PageRequest:
    """Which part of a list, in which order: names of the list's columns, `-` before one that descends."""

    limit: int
    offset: int = 0
    order_by: Sequence[str] = ()
    cursor: str | None = None
    """Where to continue in a list that has cursors, in place of `offset`; "" is the beginning."""


@dataclass(frozen=True, kw_only=True)
class ResultPage(Generic[T]):
    """A part of a list, and the length of the whole list."""

    rows: Sequence[T]
    total: int


async def all_of(
    connection: AsyncConnection, query: Executable, shape: Callable[..., T], parameters: Mapping[str, Any] | None = None
) -> Sequence[T]:
    """Return the rows of a query, each made by `shape` of the row's columns as keywords."""
    return [shaped(row, shape) for row in (await connection.execute(query, parameters)).mappings()]


def shaped(row: RowMapping | Mapping[str, Any], shape: Callable[..., T]) -> T:
    """Return what `shape` makes of a row's columns, each a keyword with the name of a field.

    This is the one place where rows become our values without their columns written out.
    """
    return shape(**row)


async def one_of(connection: AsyncConnection, query: Executable, shape: Callable[..., T], missing: StoreError) -> T:
    """Return the only row of a query, made by `shape`. Raises `missing` if there is none."""
    row = (await connection.execute(query)).mappings().one_or_none()
    if row is None:
        raise missing
    return shaped(row, shape)


_NOW: Final = select(database_now())


async def now_of(connection: AsyncConnection) -> datetime:
    """Return the database's time."""
    return (await connection.execute(_NOW)).scalar_one()


async def page(
    connection: AsyncConnection,
    query: Select[Any],
    window: PageRequest,
    columns: Mapping[str, ColumnElement[Any]],
    shape: Callable[..., T],
    *,
    numbered: Select[Any] | None = None,
) -> ResultPage[T]:
    """Run a list's query. `columns` are what it may be ordered by; the first settles ties, as in `ordering`.

    `numbered` selects the same rows, but only the column that settles ties, for a list that grows long: an index alone
    counts it and skips the rows before the page.
    """
    rows_of_all = (query.order_by(None) if numbered is None else numbered).subquery()
    total = (await connection.execute(select(func.count()).select_from(rows_of_all))).scalar_one()
    tie = next(iter(columns.values()))
    order = [_direction(columns, name) for name in ordering(window, columns)]
    part = (query if numbered is None else numbered).order_by(*order).limit(window.limit).offset(window.offset)
    rows = await all_of(connection, part if numbered is None else query.where(tie.in_(part)).order_by(*order), shape)
    return ResultPage(rows=rows, total=total)


async def newest(
    connection: AsyncConnection,
    query: Select[Any],
    number: ColumnElement[Any],
    shape: Callable[..., T],
    *,
    limit: int,
    before: int | None,
) -> Sequence[T]:
    """Return the rows with the highest `number` below `before`, at the same cost however long the list is.

    Rows get their number as they come.
    """
    below = true() if before is None else number < before
    return await all_of(connection, query.where(below).order_by(number.desc()).limit(limit), shape)


def ordering(window: PageRequest, columns: Mapping[str, ColumnElement[Any]]) -> Sequence[str]:
    """Return the names by which a list is ordered.

    The column that settles ties comes last, and descends if the first does, as in Airflow.
    """
    sign = "-" if window.order_by and window.order_by[0].startswith("-") else ""
    return [*window.order_by, sign + next(iter(columns))]


def _direction(columns: Mapping[str, ColumnElement[Any]], name: str) -> ColumnElement[Any]:
    column = columns[name.removeprefix("-")]
    return column.desc() if name.startswith("-") else column.asc()


def equal(column: ColumnElement[T], value: T | None) -> ColumnElement[bool]:
    """Return the condition of a plain filter; None means all."""
    return true() if value is None else column == value


def among(column: ColumnElement[T], values: Collection[T] | None) -> ColumnElement[bool]:
    """Return the condition of a filter by several values; None and an empty collection mean all."""
    return column.in_(values) if values else true()


@dataclass(frozen=True, kw_only=True)
class Range:
    """Bounds of times or numbers; None is no bound."""

    gte: Any = None
    gt: Any = None
    lte: Any = None
    lt: Any = None


NO_BOUNDS: Final = Range()


def within(column: ColumnElement[Any], bounds: Range) -> ColumnElement[bool]:
    """Return the condition of a filter by bounds. Null lies within no bounds."""
    given = ((_BOUNDS[name], value) for name, value in vars(bounds).items() if value is not None)
    return and_(true(), *(keeps(column, value) for keeps, value in given))


def contains(column: ColumnElement[str], text: str | None) -> ColumnElement[bool]:
    """Return the condition that the column contains the text literally, whatever the case; None means all."""
    return true() if text is None else column.icontains(text, autoescape=True)


def like(column: ColumnElement[str], pattern: str | None, *, pipe_is_or: bool = True) -> ColumnElement[bool]:
    """Return the condition of a `*_pattern`; None means all. Without `pipe_is_or`, `|` is a character and null matches nothing."""
    return _either(pattern, lambda term: column.ilike(f"%{_literal(term)}%", escape="\\"), pipe_is_or)


def begins(column: ColumnElement[str], pattern: str | None, *, pipe_is_or: bool = True) -> ColumnElement[bool]:
    """Return the condition of a `*_prefix_pattern`; None means all. `pipe_is_or` is that of `like`."""
    return _either(pattern, lambda term: func.substr(column, 1, len(term)) == term, pipe_is_or)


def _either(
    pattern: str | None, condition: Callable[[str], ColumnElement[bool]], pipe_is_or: bool
) -> ColumnElement[bool]:
    if pattern is None:
        return true()
    if not pipe_is_or:
        return condition("" if pattern == _ALL else pattern)
    if pattern == _ALL:
        return true()
    return or_(false(), *(condition(term.strip()) for term in pattern.split("|") if term.strip()))


def _literal(term: str) -> str:
    return term.replace("\\", "\\\\")
