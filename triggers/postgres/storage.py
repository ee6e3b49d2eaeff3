"""What a position knows of the relations it was made from: their files, and the partitions that came with rows (pure).

A partition that is created, dropped or detached changes nothing that was told. One that is attached may bring rows that lie
below the position: they may have been told before, as rows of another partition or before a detach, so none is told again;
what they are is kept in mind until somebody decides by a rewind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from triggers.base import JsonObject
    from triggers.postgres.checks import Relation, TableFacts


@dataclass(frozen=True, kw_only=True)
class OldRows:
    """Those with which a partition came: how many (at most `MOST_COUNTED`), and where they begin and end."""

    rows: int
    lowest: int | str
    highest: int | str


@dataclass(frozen=True, kw_only=True, slots=True)
class Storage:
    """By oid."""

    files: Mapping[int, int]
    attached: Mapping[int, OldRows] = field(default_factory=dict)

    @classmethod
    def of(cls, facts: TableFacts) -> Self:
        return cls(files={oid: relation.file for oid, relation in facts.stored.items()})

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self | None:
        """None of a position that an older release stored."""
        if "relations" not in state:
            return None
        attached = {int(oid): OldRows(**old) for oid, old in state.get("attached", {}).items()}
        return cls(files={int(oid): file for oid, file in state["relations"].items()}, attached=attached)

    def to_state(self) -> JsonObject:
        state: dict[str, Any] = {}
        if self.files:
            state["relations"] = {str(oid): file for oid, file in self.files.items()}
        if self.attached:
            state["attached"] = {str(oid): vars(old) for oid, old in self.attached.items()}
        return state

    def new_partitions(self, facts: TableFacts) -> Mapping[int, Relation]:
        """Those that hold rows themselves."""
        return {
            oid: relation
            for oid, relation in facts.stored.items()
            if oid not in self.files and relation.kind == "r" and oid != facts.table_oid
        }

    def rewritten(self, facts: TableFacts, kinds: str) -> Sequence[str]:
        """Names of the relations of these kinds whose files are others now."""
        return [
            relation.name
            for oid, relation in facts.stored.items()
            if relation.kind in kinds and self.files.get(oid, relation.file) != relation.file
        ]

    def after(self, facts: TableFacts, attached: Mapping[int, OldRows]) -> Storage:
        """As it is now, with what the partitions which are new came with."""
        kept = {oid: old for oid, old in {**self.attached, **attached}.items() if oid in facts.stored}
        return Storage(files=Storage.of(facts).files, attached=kept)
