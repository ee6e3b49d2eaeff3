"""What a trigger lists of its source, so that its host can compare all of it with the events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

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
Range: TypeAlias = tuple[int, int]
"""Numbers from low to high, both inclusive."""
Place: TypeAlias = Literal["now", "all"] | int
"""`now` passes over what is there, `all` nothing, a place what lies before it."""
PositionOf: TypeAlias = Callable[[Collection[int]], Awaitable[PositionT | None]]
"""Returns the committed position of now, of whose large set it has these members only."""


@dataclass(frozen=True, kw_only=True)
class Inventory(Generic[PositionT]):
    """How a trigger shows all of its source: as `ListedInventory` or as `NumberedInventory`."""

    begins_at: Callable[[Any], int | None]
    """Return the place before which items were passed over, by the first watermark after a start at `now`. None: it is unknown."""
    place_of: Callable[[str], Place]
    """Return where the watcher goes on after a rewind, as a person wrote it."""
    start: Place
    """Where the watcher begins, by its options."""


@dataclass(frozen=True, kw_only=True)
class ListedInventory(Inventory[PositionT]):
    """Lists items by name. Places are moments in microseconds since 1970: what was written before is passed over."""

    pages: Callable[[PositionOf[PositionT]], AsyncGenerator[ListedPart, None]]
    """List the items in parts, at least one. A part is judged by a position that is read after the part was."""
    selects: Callable[[str], bool]
    """Whether the watcher selects an item of this name, as far as the name tells."""


@dataclass(frozen=True, kw_only=True)
class NumberedInventory(Inventory[PositionT]):
    """Counts items that events name within ranges of numbers. Places are numbers: what is below is passed over."""

    limits: Callable[[Collection[int]], Awaitable[Range | None]]
    """Return the lowest and the highest number of an item. None: there is none. All these methods leave out the given numbers."""
    count: Callable[[Sequence[Range], int, Collection[int]], Awaitable[Sequence[tuple[int, int | None]]]]
    """Return for each range how many items it has that the watcher selects, and the number that was counted up to.

    At most so many items of a range are counted; a range that was counted as a whole has None.
    """
    numbers: Callable[[Range, int, Collection[int]], Awaitable[Sequence[int]]]
    """Return the lowest numbers of items in a range, at most so many."""
    missing: Callable[[Range, int, Collection[int]], Awaitable[Sequence[int]]]
    """Return the lowest numbers in a range that are of no item, at most so many."""
    waiting: Callable[[PositionT | None], Sequence[Range] | None]
    """Return the ascending ranges that a later poll reports, by a position. None: the next poll passes over all that is there."""


@runtime_checkable
class Lists(Protocol[PositionT]):
    """The ability of a trigger to list its source. It works in the host's process only."""

    def inventory(self) -> Inventory[PositionT] | None:
        """Return how the whole source is listed, after `check`, changing nothing. None: with these options it cannot be."""


def content_text(content: Mapping[str, Any]) -> str:
    """Return the content of an item as JSON text: equal for contents that are equal in the same order."""
    return to_json(content).decode()
