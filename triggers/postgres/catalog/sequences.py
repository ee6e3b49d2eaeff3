"""The sequences that hand out the ids of a watched table (pure)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class IdSequence:
    name: str
    oid: int
    cache: int
    increment: int
    cycle: bool
    minimum: int
    readable: bool = True
    """Whether the role may read the sequence's last value."""

    @classmethod
    def from_json(cls, text: str) -> IdSequence:
        """Build it from one element of the column `sequences` of `catalog.FACTS`."""
        members: Mapping[str, Any] = json.loads(text)
        return cls(
            name=members["name"],
            oid=members["oid"],
            cache=members["cache"],
            increment=members["increment"],
            cycle=members["cycle"],
            minimum=members["minimum"],
            readable=members["readable"],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnIds:
    """The ids that a sequence has handed out; every id above them was given by hand."""

    sequence: str
    """The sequence's name as SQL."""
    increment: int

    @property
    def last(self) -> str:
        """A query for the id handed out last. Within a statement it is at least as high as every id in the statement's snapshot."""
        last = f"last_value - CASE WHEN is_called THEN 0 ELSE {self.increment} END"
        return f"SELECT {last} AS last FROM {self.sequence}"  # noqa: S608  the catalogue's

    @property
    def known(self) -> str:
        return f"drawn AS MATERIALIZED ({self.last})"
