"""Passwords that change by themselves: they are asked for anew, not read once."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import anyio
import anyio.to_thread

from triggers.errors import SourceUnavailable

COMMAND_DEADLINE: Final = 10.0
REWRITTEN_WITHIN: Final = 1.0
"""Seconds in which a file that is empty or missing may be filled: who writes it in place empties it first."""
TOKEN_KEPT: Final = 600.0
"""Seconds for which a token of RDS is used for new sessions. It is valid for 15 minutes."""
POSTGRES_PORT: Final = 5432
_REGION: Final = re.compile(r"\.([a-z0-9-]+)\.rds\.amazonaws\.com(?:\.cn)?$")


class PasswordSupply(Protocol):
    """Something that knows the password of now."""

    async def current(self, *, anew: bool = False) -> str:
        """Return the password; if `anew`, not one that is kept. Raises `SourceUnavailable` with the reason."""
        ...

    def forget(self, password: str) -> None:
        """Do not return this one again without asking: the server refused it."""
        ...


@dataclass(frozen=True)
class PasswordFile:
    """A file whose first line is the password, read for each new session."""

    path: Path

    async def current(self, *, anew: bool = False) -> str:  # noqa: ARG002  nothing is kept
        give_up_at = anyio.current_time() + REWRITTEN_WITHIN
        while True:
            try:
                return await _first_line(self.path.read_text, f"the file {self.path}")
            except SourceUnavailable:
                if anyio.current_time() >= give_up_at:
                    raise
            await anyio.sleep(REWRITTEN_WITHIN / 20)

    def forget(self, password: str) -> None:
        """Do nothing: the file is read each time."""


@dataclass
class KeptPassword:
    """A password that `ask` (blocking) returns in its first line. All who wait share one call; `ttl` is in seconds."""

    ask: Callable[[], str]
    ttl: float
    place: str
    """The place's name in sentences."""
    _password: str | None = None
    _until: float = 0.0
    _asking: anyio.Lock = field(default_factory=anyio.Lock)

    async def current(self, *, anew: bool = False) -> str:
        async with self._asking:
            if anew or self._password is None or anyio.current_time() >= self._until:
                self._password = await _first_line(self.ask, self.place)
                self._until = anyio.current_time() + self.ttl
            return self._password

    def forget(self, password: str) -> None:
        if password == self._password:
            self._password = None


def password_supply(file: Path | None, command: Sequence[str] | None, ttl: float) -> PasswordSupply:
    """Return the supply that a configuration names: a `file`, or else a `command` whose password is kept for `ttl` seconds."""
    if file is not None:
        return PasswordFile(file)
    if not command:
        raise ValueError("a password needs either a `file` or a `command`")
    return KeptPassword(partial(_run, tuple(command)), ttl, f"the command {command[0]}")


def rds_tokens(host: str, port: int | None, user: str) -> PasswordSupply:
    """Return a supply of tokens for a user of Amazon RDS or Aurora, signed with the AWS credentials of this process."""
    return KeptPassword(partial(_signed, host, port or POSTGRES_PORT, user), TOKEN_KEPT, "AWS")


def _run(command: Sequence[str]) -> str:
    """Run a program without a shell. Neither arguments nor output stand in errors, since both may be secret."""
    try:
        done = subprocess.run(  # noqa: S603  the configuration's own program
            command,
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


def _signed(host: str, port: int, user: str) -> str:
    """Sign a request to connect, as `aws rds generate-db-auth-token` does. The credentials may come from the network.

    https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/UsingWithRDS.IAMDBAuth.Connecting.html
    """
    from botocore.exceptions import BotoCoreError, NoRegionError  # noqa: PLC0415  not needed for other passwords
    from botocore.session import Session  # noqa: PLC0415

    region = match[1] if (match := _REGION.search(host)) else None
    try:
        client = Session().create_client("rds", region_name=region)
        return str(client.generate_db_auth_token(host, port, user))
    except NoRegionError:
        raise ValueError(f"neither the host {host} nor AWS_DEFAULT_REGION names a region") from None
    except BotoCoreError as error:
        raise ValueError(str(error)) from None


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
        raise SourceUnavailable(
            f"{place} gives no password for the database: {reason}; correct it, or the configuration that names it"
        )
    return line
