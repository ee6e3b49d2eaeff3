"""Reads the manifests among the versions that a watcher emits last, each as the version that was listed."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from triggers.base import JsonObject
from triggers.file_scan.rules.copies import MOST_AT_ONCE
from triggers.file_scan.versions import FileVersion, Moment
from triggers.shared.manifests import LARGEST, BadManifest, address_of, end_matcher, name_of, parse

ContentOf: TypeAlias = Callable[[FileVersion, int], Awaitable[bytes | None]]
"""Returns the content of a version, or a little more than so many bytes of a larger one. None: it is not there any more.

Raises `BadManifest` if it can never be read, and any `TriggerError`.
"""


class ManifestReader:
    """Reads manifests for one watcher. Most watchers have none, and then it changes nothing."""

    def __init__(self, globs: Collection[str], content_of: ContentOf) -> None:
        """`globs` match the ends of the manifests' keys or paths."""
        self._is_manifest = end_matcher(globs)
        self._has_any = bool(globs)
        self._content_of = content_of

    async def parts(self, versions: Iterable[FileVersion]) -> AsyncGenerator[list[FileVersion], None]:
        """Yield the versions that are still there, in parts that fit into a batch; manifests have their names."""
        part: list[FileVersion] = []
        bytes_read = 0
        for version in versions:
            read = await self.read(version)
            if read is not None:
                part.append(read)
                bytes_read += version.size if isinstance(read, ReadManifest) and read.reason is None else 0
            if len(part) >= MOST_AT_ONCE or bytes_read >= LARGEST:
                yield part
                part, bytes_read = [], 0
        if part:
            yield part

    async def read(self, version: FileVersion) -> FileVersion | None:
        """Return a version, a manifest with its names; None: the manifest was changed or removed since it was listed."""
        if not self._has_any or version.fault is not None or not self._is_manifest(name_of(version.describe())):
            return version
        if version.size > LARGEST:
            return without_names(version, f"it has more than {LARGEST:,} bytes")
        try:
            content = await self._content_of(version, LARGEST)
        except BadManifest as error:
            return without_names(version, str(error))
        return None if content is None else with_names(version, content)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadManifest:
    """A version of a manifest with the names in it, as its event has them, or with the reason why it has none."""

    version: FileVersion
    names: Sequence[str] = ()
    reason: str | None = None

    @property
    def modified(self) -> Moment:
        return self.version.modified

    @property
    def fingerprint(self) -> int:
        return self.version.fingerprint

    @property
    def aliases(self) -> Sequence[int]:
        return self.version.aliases

    @property
    def key(self) -> str:
        return self.version.key

    @property
    def size(self) -> int:
        return self.version.size

    @property
    def fault(self) -> str | None:
        return self.version.fault or self.reason

    def describe(self) -> JsonObject:
        return self.version.describe()


def with_names(version: FileVersion, content: bytes) -> ReadManifest:
    """Return a version with the names in its content, or with the reason why there are none."""
    try:
        return ReadManifest(version=version, names=parse(content, address_of(version.describe())))
    except BadManifest as error:
        return without_names(version, str(error))


def without_names(version: FileVersion, reason: str) -> ReadManifest:
    return ReadManifest(version=version, reason=f"it is no manifest: {reason}")


def vouching(versions: Sequence[FileVersion]) -> JsonObject:
    """Return what an event of versions that are emitted last says beside their files: the names in its manifests, by address."""
    named: JsonObject = {
        address_of(each.describe()): [*each.names] for each in versions if isinstance(each, ReadManifest)
    }
    return {"last": True, "manifests": named} if named else {"last": True}


def size_of(version: FileVersion) -> int:
    """Return about how many characters of an event the names in a version need."""
    return len(json.dumps(vouching([version])))
