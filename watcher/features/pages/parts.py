"""Parts of long lists. Pages go back from the newest row by the number of the last row shown, and never count rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Generic, TypeVar

from fastapi import Query

from watcher.serving.api.parameters import BIGGEST

T = TypeVar("T")
ROWS: Final = 50
"""Rows of a list that has a page of its own."""
FEW: Final = 10
"""Rows of a list on a page about something else."""
Before = Annotated[int | None, Query(ge=0, le=BIGGEST)]


@dataclass(frozen=True, kw_only=True)
class ListPart(Generic[T]):
    """A part of a list. `older` is the number below which the next part begins, or None at the end."""

    rows: Sequence[T]
    older: int | None

    @classmethod
    def of(cls, rows: Sequence[T], number: Callable[[T], int], limit: int = ROWS) -> ListPart[T]:
        """Make a part from rows that were read with one row more than `limit`."""
        return cls(rows=rows[:limit], older=number(rows[limit - 1]) if len(rows) > limit else None)
