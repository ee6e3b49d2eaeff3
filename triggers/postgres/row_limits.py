"""What no event can carry of a row: JSON that some readers refuse, and more than a batch may hold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

from triggers.base import JsonValue, RejectedItem
from triggers.errors import ConfigurationError
from triggers.shared.postgres.failures import UnreadableRows

MOST_LEVELS: Final = 190
"""How deep lists and objects in a row may be nested. Stored JSON may have 200 levels, and the row is nested in an event."""
_STRING_OR_BRACKET: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]')
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def refuse_unreadable(texts: Iterable[str | None]) -> None:
    """Raise `UnreadableRows` if some JSON readers cannot read one of these JSON texts of PostgreSQL."""
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
    """Return whether a lone surrogate is left once escapes are decoded: an escaped pair is one character."""
    try:
        json.dumps(json.loads(text, parse_int=str), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


class HugeRow(ConfigurationError):
    """A row is too large for any batch."""

    def __init__(self, table: str, key: str, size: int, most: int) -> None:
        super().__init__(
            f"the row with {key} of {table} holds {size} bytes, and a batch at most {most}: leave its large columns out of"
            " `columns`, or raise settings.triggerer.batch.max_bytes"
        )

    def rejected(self, key: JsonValue, version: str = "") -> RejectedItem:
        return RejectedItem(key=key, version=version, reason=str(self))
