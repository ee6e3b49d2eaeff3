"""Keyset pagination: a page continues where another ended, however many rows come or go in between.

A cursor holds the values by which its row is ordered, so an index finds the page after it at any depth
(https://use-the-index-luke.com/no-offset). Nulls come last, and first in descending order, on either database.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from sqlalchemy import BigInteger, Column, ColumnElement, Float, Integer, Row, Select, String, Text, and_, false, or_
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import PageRequest, ordering, page, shaped
from store.database.schema import UtcDateTime, in_utc
from store.errors import InvalidCursor

T = TypeVar("T")
_BACKWARD: Final = "~"
_NAME: Final = "order_{}"


@dataclass(frozen=True, kw_only=True)
class CursorPage(Generic[T]):
    """A part of a list. `total` is None if the part was requested by a cursor: the whole is not counted then."""

    rows: Sequence[T]
    total: int | None
    next: str | None = None
    previous: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Key:
    """A column that a list is ordered by; reversed for the way back."""

    column: ColumnElement[Any]
    descending: bool

    @property
    def may_be_null(self) -> bool:
        return not isinstance(self.column, Column) or bool(self.column.nullable)

    @property
    def order(self) -> ColumnElement[Any]:
        direction = self.column.desc() if self.descending else self.column.asc()
        if not self.may_be_null:
            return direction
        return direction.nulls_first() if self.descending else direction.nulls_last()

    def beyond(self, value: Any) -> ColumnElement[bool]:
        if value is None:
            return self.column.is_not(None) if self.descending else false()
        further: ColumnElement[bool] = self.column < value if self.descending else self.column > value
        return or_(further, self.column.is_(None)) if self.may_be_null and not self.descending else further

    def at(self, value: Any) -> ColumnElement[bool]:
        return self.column.is_(None) if value is None else self.column == value


async def cursor_page(
    connection: AsyncConnection,
    query: Select[Any],
    window: PageRequest,
    columns: Mapping[str, ColumnElement[Any]],
    shape: Callable[..., T],
) -> CursorPage[T]:
    """Return `page`, or the part behind the window's cursor if it has one. Raises `InvalidCursor`."""
    if window.cursor is None:
        by_offset = await page(connection, query, window, columns, shape)
        return CursorPage(rows=by_offset.rows, total=by_offset.total)
    _refuse_texts(window, columns)
    backward, values = _decoded(window)
    keys = _keys(window, columns, backward=backward)
    named = (key.column.label(_NAME.format(place)) for place, key in enumerate(keys))
    some = query.add_columns(*named).order_by(*(key.order for key in keys)).limit(window.limit + 1)
    if values:
        some = some.where(_after(keys, values))
    rows = (await connection.execute(some)).all()
    there_is_more = len(rows) > window.limit
    rows = rows[: window.limit][:: -1 if backward else 1]
    before, after = (there_is_more, True) if backward else (bool(values), there_is_more)
    return CursorPage(
        rows=[_shaped(row, len(keys), shape) for row in rows],
        total=None,
        next=_encoded(window, rows[-1], len(keys)) if after and rows else None,
        previous=_BACKWARD + _encoded(window, rows[0], len(keys)) if before and rows else None,
    )


def _refuse_texts(window: PageRequest, columns: Mapping[str, ColumnElement[Any]]) -> None:
    for name in window.order_by:
        if isinstance(columns[name.removeprefix("-")].type, Text):
            raise InvalidCursor(
                f"a list ordered by {name!r} has no cursors, because they would be as long as its values; give `offset`"
            )


def _keys(window: PageRequest, columns: Mapping[str, ColumnElement[Any]], *, backward: bool) -> Sequence[_Key]:
    return [
        _Key(column=columns[name.removeprefix("-")], descending=name.startswith("-") is not backward)
        for name in ordering(window, columns)
    ]


def _after(keys: Sequence[_Key], values: Sequence[Any]) -> ColumnElement[bool]:
    if len(keys) != len(values):
        raise InvalidCursor("the cursor belongs to a list in another order; request it with the same order_by")
    condition: ColumnElement[bool] = false()
    for key, value in reversed([*zip(keys, map(_typed, keys, values), strict=True)]):
        condition = or_(key.beyond(value), and_(key.at(value), condition))
    return condition


def _typed(key: _Key, value: Any) -> Any:
    """Return the value in the column's type.

    Raises `InvalidCursor`, because a database fails on a value of another type.
    """
    of = key.column.type
    try:
        match value:
            case None:
                return None
            case str() if isinstance(of, UtcDateTime) and (moment := datetime.fromisoformat(value)).tzinfo is not None:
                return in_utc(moment)
            case str() if isinstance(of, String) and _is_text(value):
                return value
            case bool():
                raise _unreadable()
            case int() | float() if isinstance(of, Float):
                return float(value)
            case int() if isinstance(of, Integer) and value.bit_length() < (64 if isinstance(of, BigInteger) else 32):
                return value
    except (ValueError, OverflowError):
        pass
    raise _unreadable()


def _shaped(row: Row[Any], keys: int, shape: Callable[..., T]) -> T:
    ordered_by = {_NAME.format(place) for place in range(keys)}
    return shaped({name: value for name, value in row._mapping.items() if name not in ordered_by}, shape)  # noqa: SLF001


def _encoded(window: PageRequest, row: Row[Any], keys: int) -> str:
    values = [row._mapping[_NAME.format(place)] for place in range(keys)]  # noqa: SLF001  SQLAlchemy's public name
    text = json.dumps([*window.order_by, values], default=datetime.isoformat)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decoded(window: PageRequest) -> tuple[bool, Sequence[Any]]:
    """Return whether the cursor leads back, and the values that it holds. Raises `InvalidCursor`."""
    cursor = window.cursor or ""
    token = cursor.removeprefix(_BACKWARD)
    if not token:
        return False, ()
    try:
        content = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise _unreadable() from None
    match content:
        case [*order_by, list(values)] if order_by == list(window.order_by):
            return cursor.startswith(_BACKWARD), values
    raise _unreadable()


def _is_text(value: str) -> bool:
    return "\0" not in value and not any("\ud800" <= character <= "\udfff" for character in value)


def _unreadable() -> InvalidCursor:
    return InvalidCursor("this is not a cursor of this list in this order; start with an empty one, `cursor=`")
