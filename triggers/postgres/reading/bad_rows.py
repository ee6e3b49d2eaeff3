"""Rows that cannot be reported, because computing, sending or decoding a value fails. They are found by halving.

One such row fails the statement that reads a thousand rows. Only errors that a row's values cause lead here: SQLSTATE class
22, SQLSTATE 54001, and our own decoding. Everything else is the watcher's error. With `on_bad_row: stop` the watcher stops at
the first such row; with `report` it rejects these rows and reports the others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from triggers.base import JsonValue, RejectedItem
from triggers.errors import ConfigurationError, SourceChanged
from triggers.shared.postgres.failures import UnreadableRows

MOST_BAD_ROWS: Final = 100
"""How many rows of one batch may be rejected."""
KeyT = TypeVar("KeyT")


async def first_unreadable(keys: Sequence[KeyT], read: Callable[[Sequence[KeyT]], Awaitable[object]]) -> int:
    """Return, by halving, how many keys come before the first whose row `read` cannot read. There is such a key."""
    readable, unreadable = 0, len(keys)
    while unreadable - readable > 1:
        middle = (readable + unreadable) // 2
        try:
            await read(keys[readable:middle])
        except UnreadableRows:
            unreadable = middle
        else:
            readable = middle
    return readable


async def all_unreadable(
    keys: Sequence[KeyT], read: Callable[[Sequence[KeyT]], Awaitable[object]]
) -> Mapping[KeyT, UnreadableRows]:
    """Return, by halving, the keys whose rows `read` cannot read, and why; at most one more than a batch may have."""
    unreadable: dict[KeyT, UnreadableRows] = {}
    pending = [keys]
    while pending and len(unreadable) <= MOST_BAD_ROWS:
        part = pending.pop()
        try:
            if part:
                await read(part)
        except UnreadableRows as error:
            if len(part) == 1:
                unreadable[part[0]] = error
            else:
                pending += [part[len(part) // 2 :], part[: len(part) // 2]]
    return unreadable


@dataclass(frozen=True, kw_only=True)
class RowPart:
    """A part of a row that can be read alone, and how: a column, or the condition `where` (column None)."""

    column: str | None
    read: Callable[[], Awaitable[object]]

    @property
    def words(self) -> str:
        return "the condition `where`" if self.column is None else f"the column {self.column}"


@dataclass(frozen=True, kw_only=True)
class RowFailure:
    """Why a row cannot be reported. `part` is None if each part alone can be read and only all of them together cannot."""

    part: RowPart | None
    cause: UnreadableRows

    def rejected(self, key: JsonValue, version: str = "") -> RejectedItem:
        part = self.part
        column, words = (None, "") if part is None else (part.column, "" if part.column else f"{part.words}: ")
        return RejectedItem(
            key=key, version=version, column=column, code=self.cause.code, reason=f"{words}{self.cause}"
        )


async def failure_of(parts: Iterable[RowPart], whole: UnreadableRows) -> RowFailure:
    """Return which part of a row cannot be read alone; `whole` is the error that reading the whole row raised."""
    for part in parts:
        try:
            await part.read()
        except UnreadableRows as cause:
            return RowFailure(part=part, cause=cause)
    return RowFailure(part=None, cause=whole)


class BadRow(ConfigurationError):
    """The next row cannot be reported: the watcher stops at it, and everything before it is reported."""

    def __init__(self, table: str, key: str, failure: RowFailure) -> None:
        super().__init__(
            f"the row with {key} of {table} cannot be reported"
            + (f", because of {failure.part.words}" if failure.part else "")
            + f": {failure.cause}; everything before it is reported. Fix or delete the row, or change `columns` and `where` so"
            " that they do not need it, or have such rows rejected with on_bad_row: report"
        )


def refuse_many(table: str, rows: int, rejected: Sequence[RejectedItem]) -> None:
    """Raise `SourceChanged` if so many rows are rejected that the fault is not in single rows."""
    if len(rejected) > MOST_BAD_ROWS or (rows > 1 and len(rejected) == rows):
        how_many = f"more than {MOST_BAD_ROWS}" if len(rejected) > MOST_BAD_ROWS else f"all {rows}"
        column = rejected[0].column
        raise SourceChanged(
            f"{how_many} rows of one batch of {table} cannot be reported, the first with the key {rejected[0].key}"
            + (f" because of the column {column}" if column else "")
            + f": {rejected[0].reason}. Fix what they have in common, or change `columns` and `where` so that they do not need it"
        )
