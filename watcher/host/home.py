"""The home of a daemon: a local folder with its identity, its tries, its logs and, by default, its database."""

from __future__ import annotations

import json
import os
import secrets
import stat
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeAlias

from store.processes.file_locks import exclusive
from watcher.errors import StartRefused
from watcher.probe import ADDRESS

SHORTEST_SECRET: Final = 32
STARTING: Final = "the daemon has been starting since"
"""The beginning of the sentence that says so, which is the only reason for which a process that starts is not ready."""
_NEWEST_EVENT: Final = "newest_event"
_PROCESS: Final = "process"
_LIFE: Final = "life.json"
_KEY_FILE: Final = "secret"
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_MISREAD = frozenset(":,#*?[]{}\\")
"""Characters that a home may not have: jobs get files of it by PYTHONPATH, Spark's lists, and --py-files with wildcards."""


Stage: TypeAlias = Literal["starting", "running", "stopped"]


@dataclass(frozen=True, kw_only=True)
class Life:
    """The last stage of the daemon that runs in a home, or ran there last. A killed one is not `stopped`.

    `since` None: a version that kept no stages ran there.
    """

    stage: Stage
    since: datetime | None


@dataclass(frozen=True, kw_only=True)
class Home:
    """An open home. Exactly one daemon holds it, by an flock that ends with the process."""

    folder: Path
    id: str

    def remember_settings(self, digests: Mapping[str, str]) -> None:
        """Store the digests for `watcher check`, which names the settings that need a restart. Raises `StartRefused`."""
        _replace(settings_path(self.folder), json.dumps(dict(digests)))

    def newest_event(self) -> int:
        """Return the highest event id that a daemon of this home has seen committed; 0 before the first."""
        try:
            return int((self.folder / _NEWEST_EVENT).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return 0

    def remember_newest_event(self, event_id: int) -> None:
        """Store the highest event id seen committed. Raises `StartRefused`."""
        _replace(self.folder / _NEWEST_EVENT, str(event_id))

    def last_process(self) -> str | None:
        """Return the id of the daemon that held this home last. It is dead, because the lock is ours. None before the first."""
        try:
            return (self.folder / _PROCESS).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None

    def remember_process(self, process_id: str) -> None:
        """Store the id of the daemon that holds this home. Raises `StartRefused`."""
        _replace(self.folder / _PROCESS, process_id)

    def remember_start(self) -> None:
        """Store that everything has started, for commands that find no daemon later. A full disk keeps no daemon from working."""
        with suppress(StartRefused):
            _enter(self.folder, "running")

    def remember_address(self, url: str) -> None:
        """Store the address for this machine's commands and the health check. Raises `StartRefused`."""
        _replace(self.folder / ADDRESS, url)

    def secret(self) -> bytes:
        """Return the key that signs the tokens of tries. It is made on first use (mode 0600).

        Raises `StartRefused` for a key that is too short, or that other accounts may read.
        """
        path = self.folder / _KEY_FILE
        with refusing_os_errors(f"{path} cannot be read"):
            text = _made_once(path, lambda: secrets.token_hex(64))
        try:
            secret = bytes.fromhex(text)
        except ValueError:
            secret = b""
        if len(secret) < SHORTEST_SECRET:
            raise StartRefused(
                f"{path} holds no secret of at least {SHORTEST_SECRET} bytes in hexadecimal; remove it, and another one is made"
            )
        check_private(path, f"chmod 600 {path}, or remove it, and another one is made")
        return secret


def known_secret(folder: Path) -> bytes | None:
    """Return the key of a home's daemon, if it has made one and this account may read it."""
    try:
        return bytes.fromhex((folder / _KEY_FILE).read_text(encoding="utf-8").strip()) or None
    except (OSError, ValueError):
        return None


def settings_path(folder: Path) -> Path:
    """Return the file with the digests of the settings that the daemon of this home runs with."""
    return folder / "settings.json"


def address(folder: Path) -> str | None:
    """Return the address of the daemon that runs in this home, or ran there last. None before the first."""
    try:
        return (folder / ADDRESS).read_text(encoding="utf-8")
    except OSError:
        return None


def life(folder: Path) -> Life | None:
    """Return the last stage of this home's daemon. None: no daemon has run here."""
    try:
        stored = json.loads((folder / _LIFE).read_bytes())
        return Life(stage=stored["stage"], since=datetime.fromisoformat(stored["since"]))
    except (OSError, ValueError, LookupError, TypeError):
        return Life(stage="stopped", since=None) if address(folder) is not None else None


def _enter(folder: Path, stage: Stage) -> None:
    _replace(folder / _LIFE, json.dumps({"stage": stage, "since": datetime.now(UTC).isoformat(timespec="seconds")}))


@contextmanager
def _lived(folder: Path) -> Iterator[None]:
    """Store when a daemon begins to start and when it has stopped. One whose start is refused leaves what was there before."""
    path = folder / _LIFE
    before = path.read_text(encoding="utf-8") if path.exists() else None
    _enter(folder, "starting")
    try:
        yield
    finally:
        with suppress(StartRefused, OSError):
            latest = life(folder)
            if latest is not None and latest.stage == "running":
                _enter(folder, "stopped")
            elif before is None:
                path.unlink(missing_ok=True)
            else:
                _replace(path, before)


def lock_path(folder: Path) -> Path:
    """Return the file whose flock shows that a daemon runs in this home."""
    return folder / "daemon.lock"


@contextmanager
def open_home(folder: Path) -> Iterator[Home]:
    """Make the folder if needed (mode 0700) and lock it. Raises `HeldElsewhere` when another daemon runs in it."""
    if misread := "".join(sorted(_MISREAD & set(str(folder)))):
        raise StartRefused(
            f"settings.home {folder} holds {misread}, which has a special meaning for Spark; choose another folder"
        )
    with ExitStack() as stack:
        make_home(folder)
        with refusing_os_errors(f"settings.home {folder} cannot be used"):
            check_private(folder, f"chmod 700 {folder}")
            stack.enter_context(exclusive(lock_path(folder)))
            home_id = _made_once(folder / "home_id", lambda: str(uuid.uuid4()))
            stack.enter_context(_lived(folder))
        if not _is_id(home_id):
            raise StartRefused(
                f"{folder / 'home_id'} holds no id, so {folder} is no daemon's home; choose another folder"
            )
        yield Home(folder=folder, id=home_id)


def make_home(folder: Path) -> None:
    """Make the folder if needed, closed to other accounts. Call this before writing anything there. Raises `StartRefused`."""
    with refusing_os_errors(f"settings.home {folder} cannot be used"):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)


def check_private(path: Path, remedy: str) -> None:
    """Raise `StartRefused` for a path that other accounts of this machine may read or change."""
    if path.stat().st_mode & _OTHERS:
        raise StartRefused(
            f"{path} is open to other accounts, and what lies there signs tokens and holds credentials; {remedy}"
        )


@contextmanager
def refusing_os_errors(happened: str) -> Iterator[None]:
    """Turn errors of the operating system into `StartRefused`."""
    try:
        yield
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it holds no text"
        raise StartRefused(
            f"{happened}: {reason}; let this account read and write there, or choose another place"
        ) from error


def _is_id(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _replace(path: Path, text: str) -> None:
    """Replace the content of a small private file, completely or not at all. Raises `StartRefused`."""
    with refusing_os_errors(f"{path} cannot be written"):
        temporary = path.with_suffix(".new")
        temporary.touch(mode=0o600)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)


def _made_once(path: Path, make: Callable[[], str]) -> str:
    """Return the text of a small private file, which is made on first use, completely or not at all."""
    if not path.exists():
        temporary = path.with_suffix(".new")
        temporary.unlink(missing_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(make())
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    return path.read_text().strip()
