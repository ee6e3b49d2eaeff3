"""What a trigger says about one item of its source: whether an event should name it, or why none does.

A trigger that `Explains` is asked by the host; options that name items are asked before it, without the source.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

PositionT_contra = TypeVar("PositionT_contra", contravariant=True)

ItemState: TypeAlias = Literal[
    "reported", "waiting", "before_start", "not_matched", "outside", "missing", "rejected", "unknown"
]
"""The words of the one list of states (docs/states.md) that a trigger can say by itself."""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The answer of a trigger for one item, by its source and its position.

    `reported`: by its position the watcher is done with the item, so an event names it unless it was there before the start.
    `waiting`: a later poll reports it. `outside`: no item of this source. `missing`: the source does not have it now.
    """

    state: ItemState
    sentence: str
    """A sentence for people, with the names, times and patterns that decided."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What decided, as JSON."""
    name: Any = None
    """How events name the item, as JSON: the `key` or `path` of a file, a row's key, or an id."""
    rejected_as: Any = None
    """How the watcher names it among the items that it rejects, if otherwise."""
    in_ranges: bool = False
    """Whether events name it within ranges of ids."""
    version: Mapping[str, Any] | None = None
    """The content that the item has in the source now, as an event names it. None: there is none, or events name no contents."""
    written: str | None = None
    """When that content was written, by the source's clock, as ISO 8601. Nothing reported it earlier."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Explanation:
        """Return what `vars` of an explanation was. Raises `KeyError` or `TypeError` for anything else."""
        return cls(
            state=document["state"],
            sentence=document["sentence"],
            facts=document["facts"],
            name=document["name"],
            rejected_as=document["rejected_as"],
            in_ranges=document["in_ranges"],
            version=document["version"],
            written=document["written"],
        )


@runtime_checkable
class Explains(Protocol[PositionT_contra]):
    """The ability of a trigger to explain an item."""

    async def explain(self, item: str, position: PositionT_contra | None) -> Explanation:
        """Say about one item, as a person wrote it, whether an event should name it, or why none does.

        `position` is the committed one, None before the first. Neither `check` nor `events` need have been called. It may ask
        the source about this one item; the host gives it a few seconds. Raises `TriggerError` if the source does not answer.
        """


@runtime_checkable
class NamesItems(Protocol):
    """The ability of a watcher's options to tell items of its source from others."""

    def name_item(self, item: str) -> Explanation:
        """Return what the options alone say of an item, as a person wrote it.

        It is `outside` if it cannot be one of the source, else `unknown` with the name that events give it.
        """


def outside(sentence: str) -> Explanation:
    return Explanation(state="outside", sentence=sentence)


def cannot_tell(item: str) -> Explanation:
    """Return the answer of a trigger that does not explain: events are searched for the item as it is written."""
    return Explanation(
        state="unknown",
        sentence="this trigger explains no items; only events that name the item as it is written are known",
        name=as_json(item),
    )


def as_json(item: str) -> Any:
    """Return what `item` is as JSON, or the text itself."""
    try:
        value = json.loads(item)
    except (ValueError, RecursionError):
        return item
    return item if value is None or isinstance(value, float) else value
