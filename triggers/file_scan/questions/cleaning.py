"""The part of a trigger for files that cleans its source: it knows the running watcher, and makes the cleaner of the source."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Collection, Sequence
from typing import ClassVar, Generic

from triggers.base import ClientT, Finding
from triggers.cleaning import RemovalStage, SourceCleaner
from triggers.file_scan.options import FileOptionsT
from triggers.file_scan.state.handled import Removals


class FileCleaner(SourceCleaner, ABC, Generic[FileOptionsT, ClientT]):
    """Cleans the source that these options name, with the client of its connection."""

    def __init__(
        self, options: FileOptionsT, client: ClientT, removals: Removals, show: Callable[[Finding | None], None]
    ) -> None:
        assert options.clean_source is not None  # noqa: S101  else there is nothing to clean
        self.options = options
        self.client = client
        self.after = options.clean_source.after
        self.target = options.clean_source.move_to
        self._removals = removals
        self._show = show

    def note(self, names: Collection[int], stage: RemovalStage) -> None:
        self._removals.note(names, stage)

    def show(self, finding: Finding | None) -> None:
        self._show(finding)


class CleanedFiles(Generic[FileOptionsT, ClientT]):
    """The part of a trigger for files that cleans its source."""

    Cleaner: ClassVar[type[FileCleaner]]  # type: ignore[type-arg]  # a ClassVar takes no type variables
    options: FileOptionsT
    client: ClientT
    _removals: Removals | None
    """None: nothing is cleaned."""
    _cleaning: Sequence[Finding] = ()
    """What people should know about the cleaning."""

    def cleaner(self) -> SourceCleaner | None:
        if self._removals is None:
            return None
        return self.Cleaner(self.options, self.client, self._removals, self._show_cleaning)

    def _show_cleaning(self, finding: Finding | None) -> None:
        self._cleaning = () if finding is None else (finding,)
