"""Files of this machine, or of a folder that driver and executors share: each is read as the version that was detected."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import IO

from asset_job.errors import FileUnreadable, SourceFailed
from asset_job.sources.arrow import lines_of_part
from asset_job.sources.file_reader import FileAccess, Opening
from asset_job.sources.packing import PIECE, checked, unpacked_if_named
from asset_job.sources.request import PUT_BACK, LocalSourceFile


@dataclass(frozen=True)
class OpenLocalFile:
    """A file that is open for one reading. Implements `OpenFile`."""

    descriptor: int
    file: LocalSourceFile

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def size(self) -> int:
        return self.file.size

    @property
    def part(self) -> tuple[int, int] | None:
        return self.file.part

    def pieces(self) -> Iterator[bytes]:
        stored = self.seekable()
        if self.file.part is None:
            return unpacked_if_named(stored, self.name)
        begin, end = self.file.part
        stored.seek(max(begin - 1, 0))
        pieces = iter(lambda: stored.read(PIECE), b"")
        return lines_of_part(pieces if begin else checked(pieces, self.name), begin, end)

    def seekable(self) -> IO[bytes]:
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        return open(self.descriptor, "rb", buffering=0, closefd=False)

    def check(self) -> None:
        """Raise `FileUnreadable` if the open file is not the version that was detected."""
        status = os.fstat(self.descriptor)
        now = (status.st_size, status.st_mtime_ns // 1000, status.st_ino)
        expected = (self.file.size, self.file.modified, self.file.inode)
        if any(before not in (None, after) for before, after in zip(expected, now, strict=True)):
            raise FileUnreadable(f"{self.file.address} was overwritten since it was detected; {PUT_BACK}")


@contextmanager
def _open(file: LocalSourceFile) -> Iterator[OpenLocalFile]:
    """A file, checked before and after it is read."""
    with open(file.path.encode(), "rb", buffering=0) as stored:  # noqa: PTH123 - a Path depends on the locale
        opened = OpenLocalFile(stored.fileno(), file)
        opened.check()
        yield opened
        opened.check()


@dataclass(frozen=True)
class LocalAccess(FileAccess[LocalSourceFile]):
    """Opens local files."""

    def opened(self, files: Iterable[LocalSourceFile]) -> Iterator[tuple[LocalSourceFile, Opening]]:
        for file in files:
            yield file, partial(_open, file)

    def errors(self, file: LocalSourceFile) -> AbstractContextManager[None]:
        return _errors(file)


@contextmanager
def _errors(file: LocalSourceFile) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise FileUnreadable(f"{file.address} was deleted since it was detected; {PUT_BACK}") from None
    except PermissionError:
        raise FileUnreadable(f"{file.address} may not be read: grant the job's account the permission") from None
    except OSError as error:
        raise SourceFailed(f"{file.address} cannot be read: {error.strerror or error}; retry the run") from None
