"""`file.new_files`: new or updated files of a local folder, each exactly once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import ClassVar, Final
from urllib.parse import unquote, urlsplit

import anyio
from anyio.to_thread import run_sync
from pydantic import BaseModel

from triggers.base import Finding, JsonObject, JsonValue, StoredPosition
from triggers.errors import ConfigurationError
from triggers.explanations import Explanation
from triggers.file_scan.questions.survey import Survey
from triggers.file_scan.rules.copies import CopyRule
from triggers.file_scan.trigger import NewFiles, QuietPoll
from triggers.file_scan.versions import NOT_SELECTED, FileVersion, Moment, ScanPage
from triggers.local_folder.cleaning import FolderCleaner, target_check
from triggers.local_folder.explanation import explain_local_file
from triggers.local_folder.folder import FolderFile, FolderListing, clock, content_of, list_files, walked
from triggers.local_folder.options import FileNewFilesOptions as FileNewFilesOptions  # noqa: PLC0414  it belongs here
from triggers.local_folder.probes import FolderProbes, RestingFolder

PAGE: Final = 1000
"""Files committed together, at most."""


ALONE: Final = 600.0
"""Seconds for which a folder that delayed others is polled alone."""


@dataclass(frozen=True, kw_only=True)
class FilePage:
    """A part of one listing, made at `clock`."""

    clock: Moment
    last: str | None
    files: Sequence[FolderFile]
    min_size: int
    is_clock_believed: bool = True

    def __len__(self) -> int:
        return len(self.files)

    def versions(self, since: Moment | None) -> Iterable[FolderFile]:  # noqa: ARG002 - a hint, for larger listings
        return [file for file in self.files if self._selects(file)]

    def fingerprints(self) -> Sequence[int]:
        return [file.fingerprint if self._selects(file) else NOT_SELECTED for file in self.files]

    def moments(self) -> Sequence[Moment]:
        return [file.modified for file in self.files]

    def version(self, index: int, fingerprint: int) -> FolderFile:  # noqa: ARG002 - the interface
        return self.files[index]

    def _selects(self, file: FolderFile) -> bool:
        return file.size >= self.min_size


class FileNewFiles(NewFiles[FileNewFilesOptions, FolderProbes | None]):
    """Path, size and time of writing make a version, and the inode number where it is kept (`identity`); its moment is the ctime, which `mv` sets and nobody can forge.

    A file waits for `min_age` after its last change, so that its writer can finish. In `mode: window` a
    changed mode or owner makes a file new again once it is older than `lateness`; `strict`, the default, does not care.
    """

    Options: ClassVar[type[BaseModel]] = FileNewFilesOptions
    Cleaner = FolderCleaner
    most_unnamed: ClassVar[int | None] = None
    copy_rule: ClassVar[CopyRule] = CopyRule(
        same="path, size and time of writing", other="inode number or time of change"
    )
    _digest: bytes | None = None
    """The digest of the last listing, if that was read as a whole and was a single page."""
    _unstable_type: str | None = None
    """The type of the file system, if its inode numbers do not count."""
    _resting: RestingFolder | None = None
    _alone_until: float = 0.0

    @classmethod
    def defaults(cls, asset_uri: str) -> JsonObject:
        uri = urlsplit(asset_uri)
        return {"path": unquote(uri.path)} if uri.scheme == "file" and uri.path else {}

    @classmethod
    @asynccontextmanager
    async def open_shared(cls) -> AsyncGenerator[FolderProbes, None]:
        async with anyio.create_task_group() as tasks:
            yield FolderProbes(tasks)
            tasks.cancel_scope.cancel()

    async def check(self) -> list[Finding]:
        try:
            files = (await self._listing()).files
        except ConfigurationError as error:
            message, _, remedy = str(error).partition("; ")
            return [Finding.error("folder", message, remedy)]
        listed = Finding.ok("folder", f"{self.options.path!r} is listed: {len(files)} matching files")
        return [listed, *self._identity(), *self._target()]

    def _target(self) -> list[Finding]:
        cleaned = self.options.clean_source
        return [] if cleaned is None or cleaned.move_to is None else [target_check(cleaned.move_to)]

    async def survey(self) -> Finding | None:
        try:
            return (await run_sync(self._survey)).finding
        except OSError:  # the next poll says why
            return None

    def _survey(self) -> Survey:
        options = self.options
        survey = Survey(
            place=f"in {options.path}",
            noun="files",
            match=options.match,
            regex=options.regex,
            min_size=options.min_size,
        )
        for key, size in walked(options.path):
            if survey.is_full:
                survey.has_more = True
                break
            is_selected = self._matcher(key) and size >= options.min_size
            survey.add(key, key, is_selected=is_selected)
        return survey

    def source_identity(self) -> JsonValue:
        return self.identity_of("file.new_files", path=self.options.path)

    async def explain(self, item: str, position: StoredPosition | None) -> Explanation:
        return await explain_local_file(self.options, self.options.path, item, position, self.options.identity)

    async def content_of(self, version: FileVersion, most: int) -> bytes | None:
        assert isinstance(version, FolderFile)  # noqa: S101 - `pages` lists no others
        return await run_sync(content_of, version, most, abandon_on_cancel=True)

    async def pages(self, after: str | None) -> AsyncGenerator[ScanPage, None]:
        began, self._digest = clock(), None
        listing = await self._listing()
        files = [file for file in listing.files if after is None or file.key > after]
        for first in range(0, max(len(files), 1), PAGE):
            part = files[first : first + PAGE]
            last = part[-1].key if len(files) > first + PAGE else None
            yield FilePage(clock=began, last=last, files=part, min_size=self.options.min_size)
        if after is None and len(files) <= PAGE:  # in larger folders the walk is most of a poll's cost
            self._digest = listing.digest

    def join_shared_poll(self) -> float | None:
        now = anyio.current_time()
        if self.client is None or self._digest is None or not self.is_settled or now < self._alone_until:
            return None
        self._resting = RestingFolder(
            root=self.options.path, matcher=self._matcher, digest=self._digest, wake=self.wake
        )
        self.client.join(self._resting, self.interval.total_seconds())
        return self.seconds_of_rest()

    def leave_shared_poll(self) -> None:
        if self.client is not None and self._resting is not None:
            self.client.leave(self._resting, self.interval.total_seconds())
            if self._resting.is_slow:
                self._alone_until = anyio.current_time() + ALONE

    @property
    def quiet_poll(self) -> QuietPoll | None:
        return None if self._resting is None else self._resting.last_quiet

    async def _listing(self) -> FolderListing:
        if self.client is None:
            listing = await run_sync(list_files, self.options.path, self._matcher, self.options.identity)
        else:
            listing = await self.client.list_files(self.options.path, self._matcher, self.options.identity)
        self._unstable_type = listing.unstable_type
        return listing

    @property
    def findings(self) -> Sequence[Finding]:
        return [*super().findings, *self._identity()]

    def _identity(self) -> Sequence[Finding]:
        if self._unstable_type is None:
            return ()
        return [
            Finding.info(
                "identity",
                f"{self.options.path!r} lies on {self._unstable_type}, whose inode numbers may change: path, size and time of writing"
                " identify a version, so that an overwrite by as many bytes that keeps the time of writing is missed",
                "set `identity: inode` if inode numbers stay the same there, or `identity: path` if this is right",
            )
        ]
