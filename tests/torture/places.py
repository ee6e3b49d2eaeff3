"""Places with files as people have them: a folder on a mount that comes and goes, a bucket whose listings lie."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from shutil import copytree, rmtree
from typing import Any, Final, Protocol
from uuid import uuid4

from tests.faulty_s3 import FaultyS3
from tests.servers import S3Server
from triggers.base import BaseEventTrigger, TriggerContext
from triggers.file_scan.versions import parse_moment
from triggers.local_folder.new_files import FileNewFiles, FileNewFilesOptions
from triggers.s3.listing import S3Client
from triggers.s3.new_files import S3NewFiles, S3NewFilesOptions


class Place(Protocol):
    """A place with files, and what its people and its storage do to it."""

    moved_in: Counter[Hashable]
    """How often each version was moved out and in again."""
    copies: int
    """How often a copy took the place's place: what it replaced is never there again as it was."""

    @property
    def is_lost(self) -> bool:
        """Whether nothing is listed, whatever is there."""

    @property
    def is_whole(self) -> bool:
        """Whether all that is there is listed."""

    def trigger(self, mode: str, match: str | None) -> BaseEventTrigger[Any, Any]: ...
    def happen(self, dice: Random) -> None: ...
    def heal(self) -> None: ...
    def listed(self) -> set[Hashable]: ...
    def named(self, file: dict[str, Any]) -> Hashable: ...


@dataclass(kw_only=True)
class Mount:
    """A folder below which files lie, and which is lost now and then: it looks empty, or it is gone with all below it."""

    root: Path
    identity: str = "inode"
    moved_in: Counter[Hashable] = field(default_factory=Counter)
    moved_out: list[str] = field(default_factory=list)
    copies: int = 0
    copied: set[Hashable] = field(default_factory=set)
    """The versions of which copies were made."""

    def __post_init__(self) -> None:
        self.path, self.away, self.elsewhere = (self.root / name for name in ("data", "away", "elsewhere"))
        for folder in (self.path, self.elsewhere):
            folder.mkdir(parents=True)

    @property
    def is_lost(self) -> bool:
        return self.away.exists()

    @property
    def is_whole(self) -> bool:
        return not self.is_lost

    def trigger(self, mode: str, match: str | None) -> BaseEventTrigger[Any, Any]:
        always = {"path": str(self.path), "start": "all", "interval": "1ms", "min_age": "0s"}
        options = {**always, "mode": mode, "match": match, "identity": self.identity}
        return FileNewFiles(FileNewFilesOptions.model_validate(options), None, TriggerContext(watcher="w"))

    def happen(self, dice: Random) -> None:
        action = dice.randrange(10)
        if action == 0:
            if self.away.exists():
                self.heal()
            else:
                self._lose()
        elif not self.away.exists():
            names = sorted(each.name for each in self.path.iterdir())
            self._act(dice, action, names)

    def _act(self, dice: Random, action: int, names: list[str]) -> None:
        match action:
            case 1 | 2 if names:  # overwritten in place, or by another file of the same length
                place = self.path / dice.choice(names)
                if action == 2:
                    place.unlink()
                self._write(place)
            case 3 if names:
                (self.path / dice.choice(names)).unlink()
            case 4 if names:
                name = dice.choice(names)
                (self.path / name).rename(self.elsewhere / name)
                self.moved_out.append(name)
            case 5 if self.moved_out:
                name = self.moved_out.pop()
                if name not in names:
                    (self.elsewhere / name).rename(self.path / name)
                    self.moved_in[self._version(self.path / name)] += 1
            case 6 if dice.random() < 0.3:
                self._copy()
            case _:
                for _ in range(dice.choice([1, 1, 30])):
                    self._write(self.path / f"{uuid4().hex}.csv")

    def _write(self, place: Path) -> None:
        place.write_text(uuid4().hex)

    def _copy(self) -> None:
        """Put a copy in the folder's place, as another disk has it: the inode numbers differ, and no time but the ctime."""
        copy = self.root / "copy"
        self.copies += 1
        self.copied |= self.listed()
        copytree(self.path, copy)
        rmtree(self.path)
        copy.rename(self.path)
        # As if they had been moved out and in: all where inode numbers do not count, else those that have one from before the last copy.
        self.moved_in.update(self.listed() & self.copied)

    def _lose(self) -> None:
        self.path.rename(self.away)
        self.path.mkdir()

    def heal(self) -> None:
        if self.away.exists():
            self.path.rmdir()
            self.away.rename(self.path)

    def listed(self) -> set[Hashable]:
        return {self._version(each) for each in self.path.iterdir()}

    def _version(self, place: Path) -> Hashable:
        status = place.stat()
        inode = status.st_ino if self.identity == "inode" else None
        return place.name, inode, status.st_size, status.st_mtime_ns // 1000

    def named(self, file: dict[str, Any]) -> Hashable:
        return Path(file["path"]).name, file.get("inode"), file["size"], parse_moment(file["last_modified"])


_ROW: Final = re.compile(rb"<Contents><Key>(.*?)</Key>.*?</Contents>", re.DOTALL)


@dataclass(kw_only=True)
class Bucket:
    """A bucket behind a server whose listings end too early, or are empty, without a sign."""

    server: S3Server
    client: S3Client
    name: str
    front: FaultyS3
    moved_in: Counter[Hashable] = field(default_factory=Counter)
    copies: int = 0
    ends_before: bytes | None = None
    """Listings end before this key, without a sign; None: they are whole."""

    def __post_init__(self) -> None:
        self.front.page = self._cut
        self._keys = set[str]()

    def _cut(self, page: bytes) -> bytes:
        if self.ends_before is None:
            return page
        rows = _ROW.finditer(page)
        hidden = {row[0] for row in rows if row[1] >= self.ends_before}
        for row in hidden:
            page = page.replace(row, b"")
        return page.replace(b"<IsTruncated>true<", b"<IsTruncated>false<") if hidden else page

    @property
    def is_lost(self) -> bool:
        return self.ends_before == b""

    @property
    def is_whole(self) -> bool:
        return self.ends_before is None

    def trigger(self, mode: str, match: str | None) -> BaseEventTrigger[Any, Any]:
        options = {"bucket": self.name, "mode": mode, "match": match, "start": "all", "interval": "1ms"}
        context = TriggerContext(watcher="w", is_alone=True)
        return S3NewFiles(S3NewFilesOptions.model_validate(options), self.client, context)

    def happen(self, dice: Random) -> None:
        match dice.randrange(8):
            case 0 if self.ends_before is None:
                self.ends_before = dice.choice([b"", dice.choice([*sorted(self._keys), ""]).encode()])
            case 0 | 1:
                self.heal()
            case 2 if self._keys:
                self._put(dice.choice(sorted(self._keys)))
            case 3 if self._keys:
                key = dice.choice(sorted(self._keys))
                self._keys.remove(key)
                self.server.client.delete_object(Bucket=self.name, Key=key)
            case _:
                for _ in range(dice.choice([1, 1, 12])):
                    self._put(uuid4().hex)

    def _put(self, key: str) -> None:
        self._keys.add(key)
        self.server.client.put_object(Bucket=self.name, Key=key, Body=uuid4().bytes)

    def heal(self) -> None:
        self.ends_before = None

    def listed(self) -> set[Hashable]:
        pages = self.server.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        rows = [row for page in pages for row in page.get("Contents", ())]
        return {(row["Key"], row["ETag"].strip('"')) for row in rows}

    def named(self, file: dict[str, Any]) -> Hashable:
        return file["key"], file["etag"]
