"""Scopes, writers and expiry: the values that every backend and every room of the store shares."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, TypeAlias

from store.errors import InvalidValue
from store.keys import TaskInstanceKey


class NeverExpire(Enum):
    """The type of `NEVER_EXPIRE`: an entry that no retention ever removes."""

    NEVER_EXPIRE = "never_expire"


NEVER_EXPIRE: Final = NeverExpire.NEVER_EXPIRE


TaskScope: TypeAlias = TaskInstanceKey
"""The state of one task instance: `dag_id`, `run_id`, `task_id`, and `map_index`, -1 for an unmapped task."""


@dataclass(frozen=True, kw_only=True)
class AssetScope:
    """The state of one asset, named by at least one of its id, name or uri."""

    asset_id: int | None = None
    name: str | None = None
    uri: str | None = None

    def __post_init__(self) -> None:
        if self.asset_id is None and self.name is None and self.uri is None:
            raise InvalidValue("an asset scope needs an asset_id, a name or a uri")


Scope: TypeAlias = TaskScope | AssetScope


class AssetStoreWriterKind(StrEnum):
    """The kinds of writers of an asset's entry: a job's task, a watcher, or a person or tool through the API."""

    TASK = "task"
    WATCHER = "watcher"
    API = "api"

    def validate_writer_fields(self, **given: str | int | None) -> None:
        """Raise `InvalidValue` unless exactly this kind's fields are set.

        The fields are dag_id, run_id, task_id, map_index, watcher and actor.
        """
        needed = _FIELDS_OF_KIND[self]
        fields = {**given, **{name: given.get(name) for name in sorted(needed)}}
        wrong = [name for name, value in fields.items() if (value is not None) != (name in needed)]
        if wrong:
            raise InvalidValue(
                f"a {self.value} writer sets exactly {', '.join(sorted(needed))}; wrong: {', '.join(wrong)}"
            )


_FIELDS_OF_KIND: Final = {
    AssetStoreWriterKind.TASK: frozenset({"dag_id", "run_id", "task_id", "map_index"}),
    AssetStoreWriterKind.WATCHER: frozenset({"watcher"}),
    AssetStoreWriterKind.API: frozenset({"actor"}),
}
_NAMING: Final = frozenset().union(*_FIELDS_OF_KIND.values())


@dataclass(frozen=True, kw_only=True)
class Writer:
    """A writer, and the `write_id` that leads from the stored value to the log lines of this write.

    `write_id` is None for an entry that was overwritten without a writer since. `try_number` is kept in the history
    only. Raises `InvalidValue` if kind and fields disagree.
    """

    kind: AssetStoreWriterKind
    write_id: str | None
    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int | None = None
    try_number: int | None = None
    watcher: str | None = None
    actor: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kind, AssetStoreWriterKind):
            raise InvalidValue(f"unknown writer kind {self.kind!r}; use AssetStoreWriterKind: task, watcher or api")
        given = vars(self)
        if {name for name in _NAMING if given[name] is not None} != _FIELDS_OF_KIND[self.kind]:
            self.kind.validate_writer_fields(
                dag_id=self.dag_id,
                run_id=self.run_id,
                task_id=self.task_id,
                map_index=self.map_index,
                watcher=self.watcher,
                actor=self.actor,
            )
