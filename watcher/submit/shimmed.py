"""Submitters whose jobs run on this machine under `shim.py`: all of the contract but what is to be run."""

from __future__ import annotations

import subprocess
import sys
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from os import SEEK_END
from pathlib import Path
from shutil import rmtree
from signal import SIGTERM, Signals
from typing import BinaryIO

import anyio
from anyio.to_thread import run_sync

from watcher.submit import shim
from watcher.submit.base import Attachment, Handle, Progress, Status, SubmitError, Submitter, TaskTry
from watcher.submit.explaining import TAIL, explain_log
from watcher.submit.folder import Exit, TryFolder
from watcher.submit.processes import TAG_VARIABLE, kill_tagged, signal_tagged
from watcher.submit.spark_ui import ADDRESS_FILE, ask_spark_ui

CLAIMED_BY_ANOTHER = 75
"""The SDK's exit code when somebody else has claimed the try (EX_TEMPFAIL)."""
_LOST = "the job was lost: its processes are gone without a word, killed from outside"
_START_TIMEOUT = 60.0
_KILL_MARGIN = 5.0
_LOOK_EVERY = 0.05
_CHUNK = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class Command:
    """What the shim runs; `argv[0]` is an absolute path, `files` are written 0600 into the try's folder before."""

    argv: list[str]
    environment: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)


class ShimSubmitter(Submitter):
    """Linux only. The try's folder is the truth; a handle only says where it is, so none of it can go stale."""

    @abstractmethod
    def command(self, task_try: TaskTry, folder: TryFolder) -> Command:
        """What to run; called in a thread. Raises `SubmitError` when the machine lacks what it takes."""

    async def submit(self, task_try: TaskTry) -> Handle:
        return await run_sync(self._submit, task_try)

    async def attach(self, task_try: TaskTry, handle: Handle | None) -> Handle | Attachment:
        return await run_sync(_attach, task_try, handle)

    async def poll(self, handle: Handle) -> Status:
        """`exit_code` is None when the try is lost: gone without an exit file, what was left of it killed."""
        return await run_sync(_poll, _folder(handle), handle["tag"], Path(handle["log"]))

    async def cancel(self, handle: Handle, grace: float) -> None:
        folder, tag = _folder(handle), handle["tag"]
        by_shim = await run_sync(_ask_to_stop, folder, tag, grace)
        with anyio.move_on_after(grace + (_KILL_MARGIN if by_shim else 0)):
            while not await run_sync(_gone, folder):  # noqa: ASYNC110 - a lock has no event to wait for
                await anyio.sleep(_LOOK_EVERY)
        await run_sync(_make_sure, folder, tag)

    async def logs(self, handle: Handle, offset: int) -> AsyncIterator[bytes]:
        while chunk := await run_sync(_read, Path(handle["log"]), offset):
            yield chunk
            offset += len(chunk)

    async def progress(self, handle: Handle) -> Progress | None:
        return await ask_spark_ui(_folder(handle).scratch / ADDRESS_FILE)

    def _submit(self, task_try: TaskTry) -> Handle:
        folder = TryFolder(task_try.folder)
        if not folder.started():
            command = self.command(task_try, folder)
            try:
                folder.make()
                with folder.preparing(), _open_log(task_try.log) as log:
                    if not folder.started():
                        _prepare(folder, task_try, command)
                        _start(folder, task_try, command, log)
            except (OSError, ValueError, subprocess.TimeoutExpired) as error:
                _give_up(folder, f"the job could not be started from {folder.path}: {error}")
        return _handle(task_try)


def _prepare(folder: TryFolder, task_try: TaskTry, command: Command) -> None:
    folder.write_context(task_try.context)
    for name, content in command.files.items():
        folder.write_private(name, content)
    folder.order(command.argv)


def _start(folder: TryFolder, task_try: TaskTry, command: Command, log: BinaryIO) -> None:
    started = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-I", shim.__file__, str(folder.path)],
        env={**command.environment, TAG_VARIABLE: task_try.tag},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        timeout=_START_TIMEOUT,
        check=False,
    )
    if started.returncode != 0:
        _give_up(folder, f"the process that starts the job failed; {task_try.log} says why")


def _give_up(folder: TryFolder, sentence: str) -> None:
    """Raises `SubmitError` when it is certain that nothing runs, and that nothing will."""
    with folder.unlocked() as free:
        if free and not folder.started():
            folder.withdraw()
            raise SubmitError(sentence)


def _attach(task_try: TaskTry, handle: Handle | None) -> Handle | Attachment:
    folder = TryFolder(task_try.folder)
    with folder.unlocked() as free:
        if not free or folder.exit() is not None:
            return _handle(task_try)
        if handle is None and not folder.started():
            # A shim of the daemon that crashed may still be on its way here: ABSENT has to stay true.
            folder.withdraw()
            return Attachment.ABSENT
        _bury(folder, task_try.tag)
    return Attachment.RESTARTED if folder.machine_restarted() else Attachment.LOST


def _poll(folder: TryFolder, tag: str, log: Path) -> Status:
    with folder.unlocked() as free:
        if not free:
            return Status(phase="running" if folder.started() else "starting")
        found = folder.exit()
        if found is None:
            _bury(folder, tag)
            return Status(phase="exited", reason=_LOST, restarted=folder.machine_restarted())
    _tidy(folder)
    return Status(phase="exited", exit_code=found.exit_code, reason=explain(found, log))


def _ask_to_stop(folder: TryFolder, tag: str, grace: float) -> bool:
    """SIGTERM to the shim, which passes it on and kills after the grace; to the job itself, False, when it is gone."""
    with folder.unlocked() as free:
        if free:
            folder.withdraw()
            return False
    folder.wish_to_stop(grace)
    shim_process = folder.shim_process()
    if shim_process is not None and signal_tagged(tag, SIGTERM, only=shim_process):
        return True
    signal_tagged(tag, SIGTERM)
    return False


def _gone(folder: TryFolder) -> bool:
    with folder.unlocked() as free:
        return free


def _make_sure(folder: TryFolder, tag: str) -> None:
    """Only a shim that ended by itself has seen to what the job left behind."""
    if not _gone(folder) or folder.exit() is None:
        kill_tagged(tag)


def _bury(folder: TryFolder, tag: str) -> None:
    """Kill what a dead shim left behind, a shim on its way included; called with the lock held."""
    folder.withdraw()
    kill_tagged(tag)
    _tidy(folder)


def _tidy(folder: TryFolder) -> None:
    """Credentials and temporary files do not outlive the try."""
    folder.context.unlink(missing_ok=True)
    rmtree(folder.scratch, ignore_errors=True)


def explain(found: Exit, log: Path) -> str:
    """One sentence about how the try ended, with the line of its log that says so; '' for a success."""
    if found.reason or found.exit_code == 0:
        return found.reason
    if found.stopped:
        return "the job was stopped on request"
    if found.exit_code == CLAIMED_BY_ANOTHER:
        return "another process had claimed this try before"
    if found.exit_code == 128 + Signals.SIGKILL:
        return "the job was killed (SIGKILL); if nobody did that, the machine is out of memory: lower settings.scheduler.memory_mb"
    how = f"the job {_ended(found)}"
    text, lines_before = _end_of(log)
    finding = explain_log(text)
    if finding is None:
        return f"{how} and said nothing"
    where = "; ".join(filter(None, (finding.place, f"log line {lines_before + finding.line + 1}")))
    said = f"{how}; its last words: {finding.sentence}" if finding.guessed else finding.sentence
    return f"{said} ({where})"


def _ended(found: Exit) -> str:
    if found.signal is None:
        return f"ended with exit code {found.exit_code}"
    return "was ended by " + next((one.name for one in Signals if one == found.signal), f"signal {found.signal}")


def _end_of(log: Path) -> tuple[str, int]:
    """The end of the log, from the start of a line on, and how many lines come before it."""
    try:
        with log.open("rb") as file:
            skipped = max(file.seek(0, SEEK_END) - TAIL, 0)
            file.seek(0)
            before = _lines_in(file, skipped)
            if before:
                file.readline()
                before += 1
            return file.read(2 * TAIL).decode(errors="replace"), before
    except OSError:
        return "", 0


def _lines_in(file: BinaryIO, size: int) -> int:
    """How many lines end in the next `size` bytes."""
    lines = 0
    while size > 0 and (chunk := file.read(min(size, _CHUNK))):
        lines += chunk.count(b"\n")
        size -= len(chunk)
    return lines


def _handle(task_try: TaskTry) -> Handle:
    return {"folder": str(task_try.folder), "log": str(task_try.log), "tag": task_try.tag}


def _folder(handle: Handle) -> TryFolder:
    return TryFolder(Path(handle["folder"]))


def _open_log(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("ab", buffering=0)


def _read(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(_CHUNK)
    except FileNotFoundError:
        return b""
