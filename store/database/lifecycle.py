"""Declarations about tables: who owns the rows, what a rename does to them, and how long they are kept.

`store.database.schema` gives every table one. `store.detection.rewind.rename` and `store.processes.cleanup` are driven by
them, and a test asks every table for its declaration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final, TypeAlias, TypeVar

from sqlalchemy import ColumnElement, Table, delete, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

T = TypeVar("T")
LIFECYCLE: Final = "lifecycle"
"""The key of a table's declaration in `Table.info`."""
FEATURE: Final = "feature"
"""The key of the feature whose table it is; None: the kernel's."""


class RowOwner(StrEnum):
    """The kinds of owners of a table's rows."""

    ASSET = "asset"
    ALIAS = "alias"
    WATCHER = "watcher"
    JOB = "job"
    RUN = "run"
    PROCESS = "process"
    PERSON = "person"
    INSTALLATION = "installation"


class NameRule(Enum):
    """What a rename does to a column that needs no statement."""

    AS_WRITTEN = "The column says who did something, under the name of that time; a rename changes nothing."
    BY_ID = "The column refers to an asset by its id, which a rename leaves alone."
    IN_PLACE = "The column is the name itself: `store.catalog.catalog_sync` writes the new one into the same row."
    ANOTHER_JOB = "A job under another dag_id is another job; the rows stay with the old one."


@dataclass(frozen=True, kw_only=True)
class Follows:
    """The rows go to the watcher's new name, and rows that the new name already has are removed.

    `suffixes` are what rows may have behind the name; each is renamed by itself.
    """

    suffixes: tuple[str, ...] = ("",)


@dataclass(frozen=True, kw_only=True)
class HandedOver:
    """These columns go to the row of the watcher's new name; the row of the old name stays, without them.

    `stays` are the other columns. Each column of the table is in one of the two.
    """

    columns: tuple[str, ...]
    stays: tuple[str, ...]


Rename: TypeAlias = NameRule | Follows | HandedOver


class Horizon(StrEnum):
    """When the clean-up may remove a row: after the days of a setting, or by something in the row itself."""

    TASK_ENTRY = "store.default_retention_days"
    HISTORY = "store.history_retention_days"
    EVENT = "store.event_retention_days"
    RUN = "store.run_retention_days"
    ORPHAN = "store.orphan_grace_days"
    OWN_EXPIRY = "the time in the row itself"
    UNDO_ENDED = "the rewind can no longer be undone"
    NIGHTS = "the timeline's longest span, and a day"
    REQUEST_REPEATED = "no client repeats its request any more"


@dataclass(frozen=True, kw_only=True)
class Swept:
    """The clean-up removes the rows, and reports them under the name `sweep`."""

    sweep: str
    horizon: Horizon


@dataclass(frozen=True, kw_only=True)
class DeletedWith:
    """The rows are deleted with the row of `table` that they refer to; `columns` maps their columns to its columns.

    `by_database`: a foreign key with ON DELETE CASCADE does it; otherwise whoever deletes the row sends a statement.
    """

    table: str
    columns: Mapping[str, str]
    by_database: bool = False


@dataclass(frozen=True, kw_only=True)
class RemovedBy:
    """The function that finishes with the rows removes them, however old they are."""

    function: str


@dataclass(frozen=True, kw_only=True)
class KeptForEver:
    """No row is removed because of its age; the reason is a sentence."""

    reason: str


Retention: TypeAlias = Swept | DeletedWith | RemovedBy | KeptForEver


@dataclass(frozen=True, kw_only=True)
class Lifecycle:
    """A table's declaration. `names` are the columns that name a watcher, a job or an asset, each with its rule."""

    owner: RowOwner
    kept: tuple[Retention, ...]
    names: Mapping[str, Rename] = field(default_factory=dict)


def lifecycle_of(table: Table) -> Lifecycle:
    """Return the table's declaration. Raises `LookupError` with a sentence if it has none."""
    declared = table.info.get(LIFECYCLE)
    if not isinstance(declared, Lifecycle):
        raise LookupError(  # noqa: TRY004  it is absent, not of another type
            f"the table {table.name} does not declare who owns its rows, what renames do to them and how long they are "
            "kept; give it a Lifecycle in store/database/schema.py"
        )
    return declared


def renamed(tables: Iterable[Table], kind: type[T]) -> Iterator[tuple[Table, str, T]]:
    """Yield the tables, with column and rule, that declare a rename of this kind, in the order given."""
    for table in tables:
        for column, rule in lifecycle_of(table).names.items():
            if isinstance(rule, kind):
                yield table, column, rule


def retained(tables: Iterable[Table], kind: type[T]) -> Iterator[tuple[Table, T]]:
    """Yield the tables, with the rule, that declare a retention of this kind, in the order given."""
    for table in tables:
        for rule in lifecycle_of(table).kept:
            if isinstance(rule, kind):
                yield table, rule


async def delete_whole(connection: AsyncConnection, table: Table, which: ColumnElement[bool]) -> None:
    """Delete rows of a table of the kernel, and before them the rows that are declared to be deleted with them.

    Rows of features that belong to them are deleted by the database.
    """
    kernel = [each for each in table.metadata.tables.values() if each.info[FEATURE] is None]
    for other, rule in retained(kernel, DeletedWith):
        if rule.table == table.name and not rule.by_database:
            parents = select(*(table.c[name] for name in rule.columns.values())).where(which)
            own: list[ColumnElement[object]] = [other.c[name] for name in rule.columns]
            refers = own[0].in_(parents) if len(own) == 1 else tuple_(*own).in_(parents)
            await delete_whole(connection, other, refers)
    await connection.execute(delete(table).where(which))
