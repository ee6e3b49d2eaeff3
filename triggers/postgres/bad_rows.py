"""Rows that cannot be told: a value fails where it is computed, sent or decoded. They are found by halving.

One such row fails the statement that reads a thousand. Only errors that a row's values make lead here: SQLSTATE class 22,
54001, and our own decoding. All else is the watcher's error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from triggers.errors import ConfigurationError
from triggers.postgres.failures import UnreadableRows

MOST_LEVELS: Final = 190
"""Of lists and objects in a row. What is stored may have 200, and the row stands within an event."""
_STRING_OR_BRACKET: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]')
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")

KeyT = TypeVar("KeyT")


def refuse_unreadable(texts: Iterable[str | None]) -> None:
    """Raise `UnreadableRows` if one of these JSON texts of PostgreSQL is none that everybody can read."""
    for text in texts:
        if text is None:
            continue
        if text.count("[") + text.count("{") > MOST_LEVELS and _depth(text) > MOST_LEVELS:
            raise UnreadableRows(f"its JSON is nested deeper than {MOST_LEVELS} levels")
        if _SURROGATE.search(text) and _has_lone_surrogate(text):
            raise UnreadableRows("its JSON holds a lone surrogate, which is not text")


def _depth(text: str) -> int:
    deepest = depth = 0
    for part in _STRING_OR_BRACKET.finditer(text):
        depth += (part[0] in "[{") - (part[0] in "]}")
        deepest = max(deepest, depth)
    return deepest


def _has_lone_surrogate(text: str) -> bool:
    """Escapes are decoded first, because an escaped pair is the one character it stands for."""
    try:
        json.dumps(json.loads(text, parse_int=str), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


async def first_unreadable(keys: Sequence[KeyT], read: Callable[[Sequence[KeyT]], Awaitable[object]]) -> int:
    """How many of the keys come before the first whose row `read` does not get, by halving; one of them is such a key."""
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


class BadRow(ConfigurationError):
    """The row that cannot be told is the next one: the watcher stops at it, and everything before it is told."""

    def __init__(self, table: str, key: str, part: str | None, cause: UnreadableRows) -> None:
        """`part` is the column, or the condition, that fails by itself."""
        super().__init__(
            f"the row with {key} of {table} cannot be told" + (f", because of {part}" if part else "") + f": {cause};"
            " everything before it is told. Mend or delete the row, or change `columns` and `where` so that they do without it"
        )


def huge_row(table: str, key: str, size: int, most: int) -> ConfigurationError:
    """About a row that is too large for any batch."""
    return ConfigurationError(
        f"the row with {key} of {table} holds {size} bytes, and a batch {most} at most: leave its large columns out of"
        " `columns`, or raise settings.triggerer.batch.max_bytes"
    )


async def culprit(
    parts: Iterable[tuple[str, Callable[[], Awaitable[object]]]], whole: UnreadableRows
) -> tuple[str | None, UnreadableRows]:
    """Which of the parts of a row cannot be read by itself, and why; None when it is all of them together."""
    for part, read in parts:
        try:
            await read()
        except UnreadableRows as cause:
            return part, cause
    return None, whole
