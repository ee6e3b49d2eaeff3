"""Which versions of files newer ones supersede, by what events say of them (pure)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias


class FilePath(NamedTuple):
    """A path of one watcher and asset. What lies there is one version at a time."""

    asset_id: int
    watcher: str
    bucket: str | None
    """None: it is a file of a folder."""
    name: str


@dataclass(frozen=True, kw_only=True)
class NamedVersion:
    """A version of a file as an event names it: its place among the event's `files`, from 0, and what is said of it."""

    event_id: int
    number: int
    path: FilePath
    content: Mapping[str, Any]

    def is_same_as(self, other: NamedVersion) -> bool:
        """Whether both are one version, reported again after a rewind. Events of older releases have fewer members."""
        shared = self.content.keys() & other.content.keys()
        return all(self.content[name] == other.content[name] for name in shared)


Newest: TypeAlias = Mapping[FilePath, Sequence[NamedVersion]]
"""The newest version of each path, once for each event that names it, the newest event last."""


def versions_of(event_id: int, asset_id: int, watcher: str | None, extra: str) -> Iterator[NamedVersion]:
    """Yield the versions that an event of a watcher names, in their order. `extra` is its JSON text. Markers vouch for others."""
    payload = {} if watcher is None else json.loads(extra)
    if watcher is None or payload.get("last") is True:
        return
    for number, file in enumerate(payload.get("files", ())):
        if isinstance(file, Mapping) and isinstance(name := file.get("key") or file.get("path"), str):
            path = FilePath(asset_id, watcher, file.get("bucket"), name)
            yield NamedVersion(event_id=event_id, number=number, path=path, content=file)


def split(versions: Iterable[NamedVersion]) -> tuple[Newest, Sequence[NamedVersion]]:
    """Return the newest version of each path, and those that these supersede. They come in the order of events, then of items."""
    newest: dict[FilePath, list[NamedVersion]] = {}
    superseded: list[NamedVersion] = []
    for version in versions:
        before = newest.get(version.path, [])
        if before and not before[-1].is_same_as(version):
            superseded += before
            before = []
        newest[version.path] = [*before, version]
    return newest, superseded


def superseded_by(newer: Iterable[NamedVersion], newest: Newest) -> Sequence[NamedVersion]:
    """Return those of the newest versions of a run that a newer one supersedes, of an event that came later."""
    by_path: defaultdict[FilePath, list[NamedVersion]] = defaultdict(list)
    for version in newer:
        by_path[version.path].append(version)
    return [
        each
        for path, own in newest.items()
        for each in own
        if any(new.event_id > own[-1].event_id and not new.is_same_as(own[-1]) for new in by_path.get(path, ()))
    ]


def named(newest: Newest, names: Collection[str]) -> Newest:
    """Return those of the paths that are called so, as events name them: by key or by path."""
    return {path: versions for path, versions in newest.items() if path.name in names}
