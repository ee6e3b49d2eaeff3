"""Parts of long lists: pages go from the newest back by the number of the last row, and never count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Generic, TypeVar

from fastapi import Query

from watcher.serving.api.parameters import BIGGEST

T = TypeVar("T")
ROWS: Final = 50
"""On a page of its own."""
FEW: Final = 10
"""On a page about something else."""
Before = Annotated[int | None, Query(ge=0, le=BIGGEST)]


@dataclass(frozen=True, kw_only=True)
class Part(Generic[T]):
    """Rows of a list; `older` is the number below which the next part begins, None at the end."""

    rows: Sequence[T]
    older: int | None

    @classmethod
    def of(cls, rows: Sequence[T], number: Callable[[T], int], limit: int = ROWS) -> Part[T]:
        """Of what was read with one row more than is shown."""
        return cls(rows=rows[:limit], older=number(rows[limit - 1]) if len(rows) > limit else None)
