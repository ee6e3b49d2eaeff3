"""Locks on files that only one process of this machine may have open, such as the home and the embedded database."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from store.errors import HeldElsewhere


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock on a file, made if it is missing, until the block or the process ends. Raises `HeldElsewhere`.

    The lock is flock's: it ends with the process, however that ends, and no program started meanwhile inherits it (a
    JVM that held it would block the restart). It means nothing on a file system that machines share. The file stays and
    holds the process id of the lock's holder, for people.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HeldElsewhere(_sentence(path, os.pread(descriptor, 32, 0))) from None
        _write(descriptor, f"{os.getpid()}\n".encode())
        try:
            yield
        finally:
            _write(descriptor, b"")
            fcntl.flock(
                descriptor, fcntl.LOCK_UN
            )  # at once, even if a program that is just being started still has the file open
    finally:
        os.close(descriptor)


@contextmanager
def exclusive_database(path: Path) -> Iterator[None]:
    """Hold an embedded database for one daemon, whatever path leads there. Raises `HeldElsewhere`.

    The second lock is on the file itself, which symbolic and hard links and other homes share; SQLite's own locks are
    fcntl's and do not conflict with flock's. They would end if this process closed a descriptor of the file while it
    uses the database, so the block encloses that use.
    """
    with exclusive(Path(f"{path}.lock")):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise HeldElsewhere(
                    f"another daemon uses the database {path}, by this path or another; stop it first, "
                    "or give this one a database of its own"
                ) from None
            yield
        finally:
            os.close(descriptor)


def _write(descriptor: int, content: bytes) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, content, 0)


def _sentence(path: Path, holder: bytes) -> str:
    pid = holder.decode(errors="replace").strip()
    who = f"the process {pid}" if pid.isdigit() else "another process"
    return f"{who} holds {path}; stop it first, or choose another home"


def is_held(path: Path) -> bool:
    """Return whether some process holds the lock at this moment."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
