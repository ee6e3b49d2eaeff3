"""What a position remembers of the relations it was made from: their files, and the partitions that arrived with rows (pure).

A partition that is created, dropped or detached changes nothing that was reported. A partition that is attached may bring
rows that lie below the position. They may have been reported before, as rows of another partition or before a detach, so
none of them is reported again. The position remembers them until a person decides by a rewind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from triggers.postgres.sql import MOST_COUNTED

if TYPE_CHECKING:
    from triggers.base import JsonObject
    from triggers.postgres.catalog.facts import Relation, TableFacts


@dataclass(frozen=True, kw_only=True)
class OldRows:
    """The rows that a partition already had when it was attached: how many (at most `MOST_COUNTED`), the lowest and the highest."""

    rows: int
    lowest: int | str
    highest: int | str

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> OldRows:
        """Build it from a row of `old_rows_by_id` or `old_rows_by_update`, or from what `to_json` returned."""
        return cls(rows=row["rows"], lowest=row["lowest"], highest=row["highest"])

    @property
    def how_many(self) -> str:
        """The number of rows in words."""
        return f"at least {self.rows:,}" if self.rows >= MOST_COUNTED else f"{self.rows:,}"

    def to_json(self) -> JsonObject:
        return {"rows": self.rows, "lowest": self.lowest, "highest": self.highest}


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownRelations:
    """The file of each relation, and the old rows of attached partitions, both by oid."""

    files: Mapping[int, int]
    attached: Mapping[int, OldRows] = field(default_factory=dict)

    @classmethod
    def of(cls, facts: TableFacts) -> Self:
        return cls(files={oid: relation.file for oid, relation in facts.stored.items()})

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self | None:
        """Return None for a position that an older release stored."""
        if "relations" not in state:
            return None
        attached = {int(oid): OldRows.from_row(old) for oid, old in state.get("attached", {}).items()}
        return cls(files={int(oid): file for oid, file in state["relations"].items()}, attached=attached)

    def to_state(self) -> JsonObject:
        state: dict[str, Any] = {}
        if self.files:
            state["relations"] = {str(oid): file for oid, file in self.files.items()}
        if self.attached:
            state["attached"] = {str(oid): old.to_json() for oid, old in self.attached.items()}
        return state

    def new_partitions(self, facts: TableFacts) -> Mapping[int, Relation]:
        """The partitions that were not known and that store rows themselves."""
        return {
            oid: relation
            for oid, relation in facts.stored.items()
            if oid not in self.files and relation.kind == "r" and oid != facts.table_oid
        }

    def rewritten(self, facts: TableFacts, kinds: str) -> Sequence[str]:
        """Return the names of the relations of these kinds whose files have changed."""
        return [
            relation.name
            for oid, relation in facts.stored.items()
            if relation.kind in kinds and self.files.get(oid, relation.file) != relation.file
        ]

    def after(self, facts: TableFacts, attached: Mapping[int, OldRows]) -> KnownRelations:
        """Return the relations as they are now, with the old rows of the partitions that were just attached."""
        kept = {oid: old for oid, old in {**self.attached, **attached}.items() if oid in facts.stored}
        return KnownRelations(files=KnownRelations.of(facts).files, attached=kept)
