"""What the catalog says about a watched table (pure)."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from triggers.postgres.catalog.sequences import DrawnIds, IdSequence
from triggers.postgres.history.kept_rows import NO_RECOGNITION, Witness
from triggers.shared.postgres.values import SMALLEST_ID, ValueType

CLOCKS_OF_CLIENTS: Final = timedelta(minutes=1)
"""How far the clocks of clients may be behind, unless the configuration says it, where a client may set the timestamp."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Relation:
    """The table, a partition or a sequence. `file` changes when the relation is rewritten or emptied."""

    name: str
    kind: str
    file: int


@lru_cache(maxsize=1000)
def _columns_of(text: str) -> Mapping[str, str]:
    """Return one shared mapping for all tables with the same columns: there may be thousands of such tables."""
    return MappingProxyType(json.loads(text))


def _relations_of(text: str) -> Mapping[int, Relation]:
    return {
        int(oid): Relation(name=members["name"], kind=members["kind"], file=members["file"])
        for oid, members in json.loads(text).items()
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class TableFacts:
    """One row of `catalog.FACTS`.

    `type` is the column's type, None when there is no such column. `defaults` are the column's default expressions on the
    table and on its partitions.
    """

    table_oid: int
    database_oid: int
    server_version: int
    role: str
    kind: str
    persistence: str
    not_null: bool | None
    type: str | None
    relations: Sequence[int]
    children: int
    has_index: bool
    is_unique: bool
    is_unique_per_partition: bool
    defaults: Sequence[str]
    subscribed: bool
    has_update_trigger: bool
    notifies: bool
    sequences: Sequence[IdSequence]
    primary_key: Sequence[str]
    columns: Mapping[str, str]
    has_insert_trigger: bool = False
    """Whether a trigger may set the column before a row is inserted."""
    is_set_by_trigger: bool = False
    """Whether BEFORE triggers whose functions name the column run at each INSERT and at each UPDATE of a row."""
    hides_rows: bool = False
    """Whether row-level security is active for the role and no policy lets it see every row."""
    stored: Mapping[int, Relation] = field(default_factory=dict)
    """The table, its partitions and its sequences, by oid."""
    files: int = 0
    """A number that changes when the table or a partition is rewritten or emptied."""
    database: str = ""
    """The name of the database."""
    mark: int = 0
    """A number that changes when the table, a partition, an index or a sequence is altered."""
    types: Mapping[str, ValueType] = field(default_factory=dict)
    """The types of the configured columns and of the primary key; they are read by a statement of their own."""
    one_plan: bool = False
    """Whether statements ordered by the column can only be planned along the column's index.

    That is not so for a partitioned table: there the arguments of each poll decide which partitions are read, and locked.
    """
    witness: Witness = NO_RECOGNITION
    """How rows are recognized; it is determined by a statement of its own."""
    most_sessions: int | None = None
    """How many sessions the server allows for the role, including those of other clients of the role or the database."""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> TableFacts:
        return cls(
            table_oid=row["table_oid"],
            database_oid=row["database_oid"],
            database=sys.intern(row["database"]),
            server_version=row["server_version"],
            role=sys.intern(row["role"]),
            kind=row["kind"],
            persistence=row["persistence"],
            not_null=row["not_null"],
            type=None if row["type"] is None else sys.intern(row["type"]),
            relations=row["relations"],
            children=row["children"],
            has_index=row["has_index"],
            is_unique=row["is_unique"],
            is_unique_per_partition=row["is_unique_per_partition"],
            defaults=row["defaults"],
            subscribed=row["subscribed"],
            has_update_trigger=row["has_update_trigger"],
            has_insert_trigger=row["has_insert_trigger"],
            is_set_by_trigger=row["is_set_by_trigger"],
            notifies=row["notifies"],
            sequences=[IdSequence.from_json(text) for text in row["sequences"]],
            primary_key=row["primary_key"],
            columns=_columns_of(row["columns"] or "{}"),
            hides_rows=row["hides_rows"],
            stored=_relations_of(row["stored"]),
            files=row["files"],
            mark=row["mark"],
            one_plan=row["one_plan"],
            most_sessions=row["most_sessions"],
        )

    @property
    def locked_relations(self) -> list[int]:
        """Every relation that a writer locks before it draws an id.

        The sequence alone would be enough, and it is the one that is locked for partitions that do not exist yet.
        """
        return [*self.relations, *(sequence.oid for sequence in self.sequences)]

    @property
    def before_all_ids(self) -> int:
        """The id below the first that the sequences hand out."""
        smallest = min((sequence.minimum for sequence in self.sequences), default=SMALLEST_ID)
        return max(SMALLEST_ID, smallest - 1)

    def lateness(self, configured: timedelta | None) -> timedelta:
        """Return how far the clocks that set the timestamp may be behind the server's."""
        if configured is not None:
            return configured
        return timedelta(0) if self.is_set_by_trigger else CLOCKS_OF_CLIENTS

    def drawn(self, *, unsafe_ids: bool) -> DrawnIds | None:
        """Return what tells drawn ids from ids given by hand; None where nothing does."""
        if unsafe_ids or len(self.sequences) != 1 or not self.sequences[0].readable:
            return None
        return DrawnIds(sequence=self.sequences[0].name, increment=self.sequences[0].increment)
