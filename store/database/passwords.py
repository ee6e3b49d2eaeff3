"""The metadata database's password where it changes by itself: it is asked for anew, not read once."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import anyio
import anyio.to_thread

from store.errors import DatabaseUnavailable

COMMAND_DEADLINE: Final = 10.0


class PasswordSupply(Protocol):
    """Something that knows the password of now."""

    async def current(self) -> str:
        """Return the password. Raises `DatabaseUnavailable` with the reason."""
        ...

    def forget(self, password: str) -> None:
        """Do not return this one again without asking: the server refused it."""
        ...


@dataclass(frozen=True)
class PasswordFile:
    """A file whose first line is the password, read for each new session."""

    path: Path

    async def current(self) -> str:
        return await _first_line(self.path.read_text, f"the file {self.path}")

    def forget(self, password: str) -> None:
        """Do nothing: the file is read each time."""


@dataclass
class PasswordCommand:
    """A program that prints the password in its first line. All who wait share one call; `ttl` is in seconds."""

    command: Sequence[str]
    ttl: float
    _password: str | None = None
    _until: float = 0.0
    _asking: anyio.Lock = field(default_factory=anyio.Lock)

    async def current(self) -> str:
        async with self._asking:
            if self._password is None or anyio.current_time() >= self._until:
                self._password = await _first_line(self._run, f"the command {self.command[0]}")
                self._until = anyio.current_time() + self.ttl
            return self._password

    def forget(self, password: str) -> None:
        if password == self._password:
            self._password = None

    def _run(self) -> str:
        """Run the program without a shell. Neither arguments nor output stand in errors, since both may be secret."""
        try:
            done = subprocess.run(  # noqa: S603  the configuration's own program
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=COMMAND_DEADLINE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ValueError(f"it took longer than {COMMAND_DEADLINE:g} s") from None
        if done.returncode:
            raise ValueError(f"it ended with exit code {done.returncode}")
        return done.stdout.decode()


async def _first_line(read: Callable[[], str], place: str) -> str:
    reason = "its first line is empty"
    try:
        line = next(iter((await anyio.to_thread.run_sync(read)).splitlines()), "")
    except UnicodeDecodeError:
        line, reason = "", "it is not UTF-8"
    except OSError as error:
        line, reason = "", error.strerror or type(error).__name__
    except ValueError as error:
        line, reason = "", str(error)
    if not line:
        raise DatabaseUnavailable(
            f"{place} gives no password for the database: {reason}; correct it, or settings.database.password"
        )
    return line
