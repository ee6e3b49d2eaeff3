"""`file.new_files`: new or updated files of a local folder, each exactly once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Final, Literal
from urllib.parse import unquote, urlsplit

from anyio.to_thread import run_sync
from pydantic import BaseModel, Field, ValidationInfo, field_validator

from triggers.base import Finding, JsonObject, JsonValue
from triggers.errors import ConfigurationError
from triggers.file_scan.options import FileOptions
from triggers.file_scan.trigger import NewFiles
from triggers.file_scan.versions import NOT_SELECTED, Moment, Page
from triggers.local_folder.folder import LocalFile, clock, list_files
from triggers.options import Duration

PAGE: Final = 1000
"""Files committed together, at most."""


class FileNewFilesOptions(FileOptions):
    """`match` and `regex` see the path below `path`."""

    path: str
    interval: Duration = Field(default=timedelta(seconds=2), gt=timedelta(0))
    mode: Literal["window", "strict"] = "strict"
    min_age: Duration = timedelta(seconds=2)

    @field_validator("path")
    @classmethod
    def _is_absolute(cls, value: str, info: ValidationInfo) -> str:
        """It names the source, whatever the working folder is; a relative one starts at the configuration's folder."""
        if info.context is not None:
            value = str(info.context.folder / value)
        if not value.startswith("/"):
            raise ValueError("path must be absolute, since it names the source whatever the working folder is")
        return value.rstrip("/") or "/"


@dataclass(frozen=True, kw_only=True)
class FilePage:
    """A part of one listing, made at `clock`."""

    clock: Moment
    last: str | None
    files: Sequence[LocalFile]
    min_size: int

    def __len__(self) -> int:
        return len(self.files)

    def versions(self, since: Moment | None) -> Iterable[LocalFile]:  # noqa: ARG002 - a hint, for larger listings
        return [file for file in self.files if self._selects(file)]

    def fingerprints(self) -> Sequence[int]:
        return [file.fingerprint if self._selects(file) else NOT_SELECTED for file in self.files]

    def version(self, index: int, fingerprint: int) -> LocalFile:  # noqa: ARG002 - the interface
        return self.files[index]

    def _selects(self, file: LocalFile) -> bool:
        return file.size >= self.min_size


class FileNewFiles(NewFiles[FileNewFilesOptions, None]):
    """A version is told by path, inode, size and time of writing; its moment is the ctime, which `mv` sets and cannot be forged.

    A file is held back for `min_age` after its last change, so that whoever writes it can finish. In `mode: window` a
    changed mode or owner makes a file new again once it is older than `lateness`; `strict`, the default, does not care.
    """

    Options: ClassVar[type[BaseModel]] = FileNewFilesOptions

    @classmethod
    def defaults(cls, asset_uri: str) -> JsonObject:
        uri = urlsplit(asset_uri)
        return {"path": unquote(uri.path)} if uri.scheme == "file" and uri.path else {}

    async def check(self) -> list[Finding]:
        try:
            files = await self._listing()
        except ConfigurationError as error:
            message, _, remedy = str(error).partition("; ")
            return [Finding.error("folder", message, remedy)]
        return [Finding.ok("folder", f"{self.options.path!r} is listed: {len(files)} matching files")]

    def source_identity(self) -> JsonValue:
        options = self.options
        return {
            "trigger": "file.new_files",
            "path": options.path,
            "match": options.match,
            "regex": options.regex,
            "min_size": options.min_size,
        }

    async def pages(self, after: str | None) -> AsyncGenerator[Page, None]:
        began = clock()
        files = [file for file in await self._listing() if after is None or file.key > after]
        for first in range(0, max(len(files), 1), PAGE):
            part = files[first : first + PAGE]
            last = part[-1].key if len(files) > first + PAGE else None
            yield FilePage(clock=began, last=last, files=part, min_size=self.options.min_size)

    async def _listing(self) -> list[LocalFile]:
        return await run_sync(list_files, self.options.path, self.options.matcher)
