"""How a host moves or deletes what was loaded: what it asks of a trigger's source, some files of one event at a time.

The host decides what may go, and records each step. A cleaner does the source's part: it touches exactly the contents that
events name, overwrites nothing, and can be asked again after it was killed in the middle.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from triggers.errors import Finding

Outcome: TypeAlias = Literal["done", "gone", "exists", "linked", "too_large", "denied", "refused"]
"""What came of a step for one file.

`done`: it is there as it was, is copied, or is removed. `gone`: the source does not have this content any more. With the others
the file stays. `exists`: the target is another file; `linked`: it lies behind a symbolic link; `too_large`: the store cannot
copy it; `denied`: the rights are missing; `refused`: it cannot be done for another reason.
"""

RemovalStage: TypeAlias = Literal["begun", "done", "given_up"]
"""How far the removal of versions has come: they may be gone from here on; they are gone; they may be there as before."""


@dataclass(frozen=True, kw_only=True)
class LoadedFile:
    """A file as an event names it. `ticket` is the same each time that this file of this event is cleaned, and no other's."""

    ticket: str
    content: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class FoundFile:
    """What the source has of a loaded file. `names` are those by which the watcher may remember it, if it is `done`."""

    outcome: Outcome
    names: Sequence[int] = ()


class SourceCleaner(ABC):
    """Moves or deletes the files of one watcher. Each method may be called again with the same files, also after a kill.

    Results are in the order of the files. Each method raises `TriggerError` if nothing can be done now.
    """

    after: timedelta
    """How long files stay once all jobs have loaded them."""
    target: str | None
    """Where they are moved. None: they are deleted."""

    @abstractmethod
    def note(self, names: Collection[int], stage: RemovalStage) -> None:
        """Tell the running watcher about removals, by the names of versions, so that it does not miss them."""

    @abstractmethod
    def show(self, finding: Finding | None) -> None:
        """Show a finding at the watcher, in place of the one before. None: there is nothing to say."""

    @abstractmethod
    async def place(self) -> str:
        """Identify the source as it is there now. A lost mount leaves another place, which says nothing about files."""

    @abstractmethod
    async def find(self, files: Sequence[LoadedFile]) -> Sequence[FoundFile]:
        """Look for exactly these contents. Changes nothing."""

    @abstractmethod
    async def copy(self, files: Sequence[LoadedFile]) -> Sequence[Outcome]:
        """Copy to the target and compare. `done` also if an earlier call has copied it."""

    async def find_copies(self, files: Sequence[LoadedFile]) -> Sequence[Mapping[str, Any] | None]:
        """Return where the copies of these files are: the members of their descriptions that differ there, and `moved_from`.

        None: there is none, or it is not known where. By default nothing is known, and runs go without what was moved.
        """
        return [None] * len(files)

    @abstractmethod
    async def remove(self, files: Sequence[LoadedFile], *, begin: bool = True) -> Sequence[Outcome]:
        """Remove these contents from the source; `done` also if it lacks them. Not `begin`: only finish what a killed call began."""


@runtime_checkable
class Cleans(Protocol):
    """The ability of a trigger to clean its source. It works in the host's process only."""

    def cleaner(self) -> SourceCleaner | None:
        """Return what moves or deletes files that were loaded. None: with these options they stay.

        A host asks while the watcher runs, and keeps it no longer than the trigger.
        """
