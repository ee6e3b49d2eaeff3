"""Removes or moves files of a local folder that were loaded: exactly these, whatever replaces them meanwhile.

POSIX has no conditional unlink. So a file is first renamed into a folder beside it that no watcher lists, which nobody can
undo between two steps of ours, and examined there: what is not the loaded content goes back. Folders are opened one below the
other without following links, so that nobody can lead a path elsewhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event
from typing import Any, Final, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from triggers.base import Finding
from triggers.cleaning import FoundFile, LoadedFile, Outcome
from triggers.errors import SourceUnavailable
from triggers.file_scan.questions.cleaning import FileCleaner
from triggers.file_scan.versions import format_moment
from triggers.local_folder.copies import (
    NO_LINKS,
    has_content,
    make_durable,
    opened_file,
    publish,
    status_of,
    write_copy,
)
from triggers.local_folder.folder import ASIDE, FolderFile
from triggers.local_folder.options import FileNewFilesOptions
from triggers.local_folder.probes import FolderProbes

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
T = TypeVar("T")


class FolderCleaner(FileCleaner[FileNewFilesOptions, FolderProbes | None]):
    """Cleans a folder. Moved files have the same path below the target."""

    async def place(self) -> str:
        return str((await self._status_of_root()).st_ino)

    async def find(self, files: Sequence[LoadedFile]) -> Sequence[FoundFile]:
        await self._status_of_root()
        return await _one_by_one([partial(self._look, file) for file in files])

    async def copy(self, files: Sequence[LoadedFile]) -> Sequence[Outcome]:
        await self._status_of_root()
        return await _one_by_one([partial(_tried, partial(self._copied, file), missing="refused") for file in files])

    async def find_copies(self, files: Sequence[LoadedFile]) -> Sequence[Mapping[str, Any] | None]:
        return await _one_by_one([partial(self._described_copy, file) for file in files])

    async def remove(self, files: Sequence[LoadedFile], *, begin: bool = True) -> Sequence[Outcome]:
        await self._status_of_root()
        steps = [partial(self._removed, file, begin=begin) for file in files]
        return await _one_by_one([partial(_tried, step, missing="done") for step in steps])

    async def _status_of_root(self) -> os.stat_result:
        try:
            [status] = await _one_by_one([partial(os.stat, self.options.path)])
        except OSError as error:
            raise SourceUnavailable(
                f"{self.options.path!r} cannot be cleaned ({error.strerror}); check the watcher's path and the mount"
            ) from error
        return status

    def _look(self, file: LoadedFile) -> FoundFile:
        names: list[int] = []

        def outcome() -> Outcome:
            with _folder_of(self.options.path, self._parts(file)) as (folder, name):
                status = status_of(folder, name)
                if status is None or not is_as_loaded(file, status):
                    return "gone" if status is None or not stat.S_ISLNK(status.st_mode) else "linked"
                names.extend(_names(file, status))
                return "done"

        found = FoundFile(outcome=_tried(outcome, missing="gone"), names=names)
        if found.outcome != "done":
            self._discard_copy(file)
        return found

    def _discard_copy(self, file: LoadedFile) -> None:
        """Remove the unfinished copy that a kill has left, also where the file itself is gone by now."""
        if self.target is not None:
            with suppress(OSError), _folder_of(self.target, self._parts(file)) as (folder, _):
                os.unlink(_copy_of(file), dir_fd=folder)

    def _parts(self, file: LoadedFile) -> list[str]:
        return str(file.content["path"]).removeprefix(f"{self.options.path.rstrip('/')}/").split("/")

    def _removed(self, file: LoadedFile, *, begin: bool) -> Outcome:
        with _folder_of(self.options.path, self._parts(file)) as (folder, name):
            if not _is_aside(folder, file.ticket):
                status = status_of(folder, name)
                if status is None or not is_as_loaded(file, status):
                    return "done"
                if not begin:
                    return "refused"
                _take(folder, name, file.ticket)
            return _finished(folder, name, file)

    def _described_copy(self, file: LoadedFile) -> Mapping[str, Any] | None:
        """Describe the copy of a file as an event would; None: no file of its size is there."""
        if self.target is None:
            return None
        parts = self._parts(file)
        with suppress(OSError), _folder_of(self.target, parts) as (folder, name):
            status = status_of(folder, name)
            if status is None or not stat.S_ISREG(status.st_mode) or status.st_size != file.content["size"]:
                return None
            return {
                "path": "/".join((self.target.rstrip("/"), *parts)),
                "size": status.st_size,
                "last_modified": format_moment(status.st_mtime_ns // 1000),
                **({"inode": status.st_ino} if "inode" in file.content else {}),
                "moved_from": file.content["path"],
            }
        return None

    def _copied(self, file: LoadedFile) -> Outcome:
        assert self.target is not None  # noqa: S101  else nothing is copied
        parts = self._parts(file)
        self._discard_copy(file)
        with _folder_of(self.options.path, parts) as (folder, name):
            place = (ASIDE, file.ticket) if _is_aside(folder, file.ticket) else (name,)
            with (
                _folder_of(self.target, parts, make=True) as (target, target_name),
                opened_file(folder, place) as source,
            ):
                if source is None or not is_as_loaded(file, os.fstat(source)):
                    return "gone"
                if status_of(target, target_name) is not None:
                    return "done" if has_content(target, target_name, source) else "exists"
                copy = _copy_of(file)
                write_copy(source, target, copy)
                if not (is_as_loaded(file, os.fstat(source)) and has_content(target, copy, source)):
                    os.unlink(copy, dir_fd=target)
                    return "gone"
                return publish(target, copy, target_name)


def target_check(target: str) -> Finding:
    """Check that moved files can be written and read."""
    if os.access(target, os.R_OK | os.W_OK | os.X_OK):
        return Finding.ok(
            "move_to", f"{target} can be written and read; jobs read moved files there, and need that right, too"
        )
    return Finding.warning(
        "move_to",
        f"moved files cannot be written to {target}, or not be read there",
        "make the folder, and let the daemon's account and those of the jobs read there",
    )


def _copy_of(file: LoadedFile) -> str:
    """The name of the copy until it is complete, which nobody else gives."""
    return f".{file.ticket}"


async def _one_by_one(steps: Sequence[Callable[[], T]]) -> Sequence[T]:
    """Take the steps in a thread of its own. If the caller is cancelled, a step that hangs is left behind, and none follows it."""
    is_over = Event()

    def take() -> Sequence[T]:
        return [step() for step in steps if not is_over.is_set()]

    try:
        return await run_sync(take, abandon_on_cancel=True, limiter=CapacityLimiter(1))
    finally:
        is_over.set()


def is_as_loaded(file: LoadedFile, status: os.stat_result) -> bool:
    """Whether this is the content that the event names: its inode number, if it has one, its size and its time of writing."""
    content = file.content
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_size == content["size"]
        and format_moment(status.st_mtime_ns // 1000) == content["last_modified"]
        and content.get("inode", status.st_ino) == status.st_ino
    )


def _names(file: LoadedFile, status: os.stat_result) -> Sequence[int]:
    path = str(file.content["path"])
    version = FolderFile(
        key=path, path=path, inode=status.st_ino, size=status.st_size, written_ns=status.st_mtime_ns, modified=0
    )
    return version.fingerprint, *version.aliases


def _tried(step: Callable[[], Outcome], *, missing: Outcome) -> Outcome:
    """Return the outcome of a step; `missing` is the one where a folder is not there."""
    try:
        return step()
    except PermissionError:
        return "denied"
    except FileNotFoundError:
        return missing
    except OSError as error:
        return "linked" if error.errno in {errno.ELOOP, errno.ENOTDIR} else "refused"


@contextmanager
def _folder_of(root: str, parts: Sequence[str], *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Open the folder of a file below the root, one by one, without following links. `make`: folders that are missing are made."""
    *folders, name = parts
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for each in folders:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(each, dir_fd=folder)
            below = os.open(each, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
        yield folder, name
    finally:
        os.close(folder)


def _is_aside(folder: int, ticket: str) -> bool:
    return status_of(folder, f"{ASIDE}/{ticket}") is not None


def _take(folder: int, name: str, ticket: str) -> None:
    """Rename a file into the folder beside it. From here on only this ticket knows it."""
    with suppress(FileExistsError):
        os.mkdir(ASIDE, 0o700, dir_fd=folder)
    with _aside(folder) as aside:
        os.rename(name, ticket, src_dir_fd=folder, dst_dir_fd=aside)
        make_durable(folder)


@contextmanager
def _aside(folder: int) -> Iterator[int]:
    aside = os.open(ASIDE, _FOLDER, dir_fd=folder)
    try:
        yield aside
    finally:
        os.close(aside)


def _finished(folder: int, name: str, file: LoadedFile) -> Outcome:
    """Remove what was taken if it is the loaded content; else put it back, unless there is a newer one."""
    with _aside(folder) as aside:
        outcome: Outcome = "done"
        if is_as_loaded(file, os.stat(file.ticket, dir_fd=aside, follow_symlinks=False)):
            os.unlink(file.ticket, dir_fd=aside)
        elif not _put_back(aside, file.ticket, folder, name):
            outcome = "refused"
        make_durable(aside)
    with suppress(OSError):  # others may lie there
        os.rmdir(ASIDE, dir_fd=folder)
    make_durable(folder)
    return outcome


def _put_back(aside: int, ticket: str, folder: int, name: str) -> bool:
    """Give what was taken its name again, whatever it is, without overwriting. Return whether that could be done."""
    try:
        os.link(ticket, name, src_dir_fd=aside, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        if not _is_linked(aside, ticket, folder, name):  # by a step of ours that a kill cut short
            return False
    except OSError as error:
        if error.errno not in NO_LINKS or status_of(folder, name) is not None:
            return False
        os.rename(ticket, name, src_dir_fd=aside, dst_dir_fd=folder)
        return True
    os.unlink(ticket, dir_fd=aside)
    return True


def _is_linked(aside: int, ticket: str, folder: int, name: str) -> bool:
    """Whether what was taken has its name again."""
    taken, there = status_of(aside, ticket), status_of(folder, name)
    return taken is not None and there is not None and os.path.samestat(taken, there)
