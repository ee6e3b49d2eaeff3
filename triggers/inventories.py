"""What a trigger lists of its source, so that its host can compare all of it with the events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from pydantic_core import to_json

PositionT = TypeVar("PositionT")

ListedState: TypeAlias = Literal["done", "waiting", "young", "before_start", "rejected"]
"""What the watcher's position says of a listed item.

`done`: no later poll reports it. `waiting`: a later poll does. `young`: it waits for `min_age`. `rejected`: the position is
past it, and no event can name it.
"""


class ListedItem(NamedTuple):
    """One item that the source has now and the watcher selects."""

    name: str
    """How events name it."""
    content: str | None
    """`content_text` of the content that it has now, as an event names it. None: events name no contents."""
    written: int | None
    """When that content was written, by the source's clock, in microseconds since 1970. None: the source does not tell."""
    state: ListedState


ListedPart: TypeAlias = tuple[int, Sequence[ListedItem]]
"""A part of a listing, and a moment by the source's clock that is not later than its making."""
PositionOf: TypeAlias = Callable[[Collection[int]], Awaitable[PositionT | None]]
"""Returns the committed position of now, of whose large set it has these members only."""


@dataclass(frozen=True, kw_only=True)
class Inventory(Generic[PositionT]):
    """How a trigger lists its source."""

    pages: Callable[[PositionOf[PositionT]], AsyncGenerator[ListedPart, None]]
    """List the items in parts, at least one. A part is judged by a position that is read after the part was."""
    begins_at: Callable[[Any], int | None]
    """Return the moment before which items were passed over, by the first watermark after a start at `now`. None: it is unknown."""
    start: Literal["now", "all"] | int
    """Where the watcher begins, by its options: a moment in microseconds passes over what was written before it."""
    selects: Callable[[str], bool]
    """Whether the watcher selects an item of this name, as far as the name tells."""


def content_text(content: Mapping[str, Any]) -> str:
    """Return the content of an item as JSON text: equal for contents that are equal in the same order."""
    return to_json(content).decode()
