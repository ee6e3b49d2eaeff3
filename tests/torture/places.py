"""A folder as people have it: on a mount that comes and goes, copied to another disk, with files that they move."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from shutil import copytree, move, rmtree
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol
from uuid import uuid4

from triggers.base import BaseEventTrigger, TriggerContext
from triggers.file_scan.versions import parse_moment
from triggers.local_folder.new_files import FileNewFiles, FileNewFilesOptions


class Place(Protocol):
    """A place with files, and what its people and its storage do to it."""

    moved_in: Counter[Hashable]
    """How often each version was moved out and in again."""
    copies: int
    """How often a copy took the place's place, or all was moved out: that is never there again as it was."""

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
    def content(self, version: Hashable) -> Hashable: ...
    def close(self) -> None: ...


OTHER_DISK: Final = Path("/dev/shm")  # noqa: S108 - a file system of its own on Linux


def may_mount() -> bool:
    return os.geteuid() == 0 and OTHER_DISK.is_mount()


@dataclass(kw_only=True)
class Mount:
    """A folder below which files lie, and which is lost now and then: it looks empty, or it is gone with all below it.

    `binds`: it is a mount of a folder of this disk or of another one; else folders are renamed.
    """

    root: Path
    identity: str = "inode"
    binds: bool = False
    moved_in: Counter[Hashable] = field(default_factory=Counter)
    moved_out: list[str] = field(default_factory=list)
    copies: int = 0
    copied: set[Hashable] = field(default_factory=set)
    """The versions of which copies were made."""
    is_lost: bool = False

    def __post_init__(self) -> None:
        self.path, self.elsewhere, disk = (self.root / name for name in ("data", "elsewhere", "disk"))
        for folder in (self.path, self.elsewhere, disk):
            folder.mkdir(parents=True)
        self._shared = TemporaryDirectory(dir=OTHER_DISK) if self.binds else None
        self.disk = disk
        """Where the files lie while they are not lost, if it is a mount, and while they are, if it is none."""
        self.former: Path | None = None
        """The disk of before the last copy."""
        if self.binds:
            self._mount()
        else:
            disk.rmdir()

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
            if self.is_lost:
                self.heal()
            else:
                self._lose()
        elif not self.is_lost:
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
                self._move_out(dice.sample(names, dice.choice([1, 1, len(names)])))
            case 5 if self.moved_out:
                for _ in range(dice.choice([1, len(self.moved_out)])):
                    self._move_in(self.moved_out.pop())
            case 6 | 7 if dice.random() < 0.3:
                if action == 6 or self.former is None:
                    self._copy()
                else:
                    self._put_back(self.former)
            case _:
                for _ in range(dice.choice([1, 1, 30])):
                    self._write(self.path / f"{uuid4().hex}.csv")

    def _write(self, place: Path) -> None:
        place.write_text(uuid4().hex)

    def _move_out(self, names: list[str]) -> None:
        for name in names:
            move(self.path / name, self.elsewhere / name)
        self.moved_out += names
        self.copies += len(names) > 1

    def _move_in(self, name: str) -> None:
        if not (self.path / name).exists() and (self.elsewhere / name).exists():
            move(self.elsewhere / name, self.path / name)
            self.moved_in[self._version(self.path / name)] += 1

    def _copy(self) -> None:
        """Put a copy in the folder's place, as another disk has it: the inode numbers differ, and no time but the ctime."""
        copy = (Path(self._shared.name) if self._shared and self.copies % 2 else self.root) / f"copy{self.copies}"
        self.copies += 1
        self.copied |= self.listed()
        copytree(self.path, copy)
        self._replace(copy)
        # As if they had been moved out and in: all where inode numbers do not count, else those that have one from before the last copy.
        self.moved_in.update(self.listed() & self.copied)

    def _put_back(self, former: Path) -> None:
        """Put back what the last copy replaced: what was done to the copy is lost."""
        self.copies += 1
        self.copied |= self.listed()
        self._replace(former)
        self.moved_in.update(self.listed())

    def _replace(self, disk: Path) -> None:
        if self.former not in {None, disk}:
            rmtree(self.former)  # type: ignore[arg-type]  # it is not None
        if self.binds:
            self._umount()
            self.former, self.disk = self.disk, disk
            self._mount()
        else:
            self.former = self.root / f"former{self.copies}"
            self.path.rename(self.former)
            disk.rename(self.path)

    def _lose(self) -> None:
        self.is_lost = True
        if self.binds:
            self._umount()
        else:
            self.path.rename(self.disk)
            self.path.mkdir()

    def heal(self) -> None:
        if not self.is_lost:
            return
        self.is_lost = False
        if self.binds:
            self._mount()
        else:
            self.path.rmdir()
            self.disk.rename(self.path)

    def close(self) -> None:
        """Leave nothing mounted."""
        if self._shared is not None:
            if not self.is_lost:
                self._umount()
            self._shared.cleanup()

    def _mount(self) -> None:
        subprocess.run(["mount", "--bind", str(self.disk), str(self.path)], check=True)

    def _umount(self) -> None:
        subprocess.run(["umount", str(self.path)], check=True)

    def listed(self) -> set[Hashable]:
        return {self._version(each) for each in self.path.iterdir()}

    def _version(self, place: Path) -> Hashable:
        status = place.stat()
        inode = status.st_ino if self.identity == "inode" else None
        return place.name, status.st_size, status.st_mtime_ns // 1000, inode

    def named(self, file: dict[str, Any]) -> Hashable:
        return Path(file["path"]).name, file["size"], parse_moment(file["last_modified"]), file.get("inode")

    def content(self, version: Hashable) -> Hashable:
        return version[:3]  # type: ignore[index]  # it is one of ours
