"""Submitters whose jobs run on this machine under `shim.py`: all of the contract but what is to be run."""

from __future__ import annotations

import json
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

from store.keys import TryKey
from watcher.host.logs import try_log
from watcher.host.logs.reader import mark
from watcher.submit.base import Addresses, Attachment, Handle, Status, Submission, SubmitError, Submitter
from watcher.submit.failure_reasons import TAIL, explain_log
from watcher.submit.local import shim
from watcher.submit.local.folder import Exit, TryFolder, try_folder
from watcher.submit.local.processes import TAG_VARIABLE, kill_tagged, signal_tagged
from watcher.submit.spark.yarn import MARK, ResourceManagers

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

    ends_with_home = True

    @abstractmethod
    def command(self, submission: Submission, folder: TryFolder) -> Command:
        """What to run; called in a thread. Raises `SubmitError` when the machine lacks what it takes."""

    def folder(self, key: TryKey) -> TryFolder:
        return TryFolder(try_folder(self.workspace.home, key))

    def log(self, key: TryKey) -> Path:
        """The try's log: the driver's stdout and stderr are appended (O_APPEND), as the daemon's records are."""
        return try_log(self.workspace.logs, **key.bindings)

    def handle(self, key: TryKey, tag: str) -> Handle:
        """What `submit` gives."""
        folder = self.folder(key)
        start = {} if folder.warm() is None else {"start": "warm"}
        return {"folder": str(folder.path), "log": str(self.log(key)), "tag": tag, **start}

    async def submit(self, submission: Submission) -> Handle:
        return await run_sync(self._submit, submission)

    async def attach(self, key: TryKey, tag: str, handle: Handle | None) -> Handle | Attachment:
        gone = await run_sync(_find_gone, self.folder(key), tag, handle is not None)
        return self.handle(key, tag) if gone is None else gone

    async def poll(self, handle: Handle) -> Status:
        """Of a lost try, what was left has been killed. Raises `ApplicationsLeft` as long as a cluster may hold some of it."""
        return await run_sync(_poll, TryFolder(Path(handle["folder"])), handle["tag"], Path(handle["log"]))

    async def cancel(self, handle: Handle, grace: float) -> None:
        folder, tag = TryFolder(Path(handle["folder"])), handle["tag"]
        by_shim = await run_sync(_ask_to_stop, folder, tag, grace)
        with anyio.move_on_after(grace + (_KILL_MARGIN if by_shim else 0)):
            while not await run_sync(_is_free, folder):  # noqa: ASYNC110 - a lock has no event to wait for
                await anyio.sleep(_LOOK_EVERY)
        await run_sync(_kill_rest, folder, tag)
        await run_sync(_end_applications, folder, tag)

    async def logs(self, handle: Handle, offset: int) -> AsyncIterator[bytes]:
        while chunk := await run_sync(_read, Path(handle["log"]), offset):
            yield chunk
            offset += len(chunk)

    def api_url(self, addresses: Addresses) -> str:
        return addresses.local

    def _submit(self, submission: Submission) -> Handle:
        folder, log = self.folder(submission.key), self.log(submission.key)
        if not folder.started():
            command = self.command(submission, folder)
            try:
                folder.make()
                log.parent.mkdir(parents=True, exist_ok=True)
                with folder.preparing(), log.open("ab", buffering=0) as output:
                    if not folder.started():
                        _start(folder, submission, command, output)
            except (OSError, ValueError, subprocess.TimeoutExpired) as error:
                _give_up(folder, f"the job could not be started from {folder.path}: {error}")
        return self.handle(submission.key, submission.tag)


def _start(folder: TryFolder, submission: Submission, command: Command, output: BinaryIO) -> None:
    for name, content in {folder.context.name: json.dumps(submission.context), **command.files}.items():
        folder.write_private(name, content)
    folder.order(command.argv)
    started = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-I", shim.__file__, str(folder.path)],
        env={**command.environment, TAG_VARIABLE: submission.tag},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        timeout=_START_TIMEOUT,
        check=False,
    )
    if started.returncode != 0:
        _give_up(folder, f"the process that starts the job failed; {output.name} says why")


def _give_up(folder: TryFolder, sentence: str) -> None:
    """Raises `SubmitError` when it is certain that nothing runs, and that nothing will."""
    with folder.unlocked() as free:
        if free and not folder.started():
            folder.withdraw()
            raise SubmitError(sentence)


def _find_gone(folder: TryFolder, tag: str, has_handle: bool) -> Attachment | None:
    """None when there is something to attach to."""
    with folder.unlocked() as free:
        if not free or folder.exit() is not None:
            return None
        if not has_handle and not folder.started():
            # A shim of the daemon that crashed may still be on its way here: ABSENT has to stay true.
            folder.withdraw()
            return Attachment.ABSENT
        _kill_orphans(folder, tag)
    return Attachment.RESTARTED if folder.machine_restarted() else Attachment.LOST


def _poll(folder: TryFolder, tag: str, log: Path) -> Status:
    with folder.unlocked() as free:
        if not free:
            return Status(phase="running" if folder.started() else "starting")
        end = folder.exit()
        if end is None:
            _kill_orphans(folder, tag)
            return Status(phase="exited", reason=_LOST, restarted=folder.machine_restarted())
    if end.stopped or end.signal is not None:
        _end_applications(folder, tag)
    _tidy(folder)
    return Status(
        phase="exited",
        exit_code=end.exit_code,
        stopped=end.stopped,
        reason=explain(end, log),
        cpu_seconds=end.cpu_seconds,
        peak_memory_mb=end.peak_mb,
    )


def _ask_to_stop(folder: TryFolder, tag: str, grace: float) -> bool:
    """SIGTERM to the shim, which passes it on and kills after the grace; to the job itself, False, when it is gone."""
    with folder.unlocked() as free:
        if free:
            folder.withdraw()
            return False
    folder.request_stop(grace)
    shim_process = folder.shim_process()
    tags = _tags(folder, tag)
    if shim_process is not None and any(signal_tagged(each, SIGTERM, only=shim_process) for each in tags):
        return True
    for each in tags:
        signal_tagged(each, SIGTERM)
    return False


def _tags(folder: TryFolder, tag: str) -> list[str]:
    """What the try's processes may have in their environment: the try's own tag, or its warm driver's."""
    warm = folder.warm()
    return [tag] if warm is None else [warm.tag, tag]


def _is_free(folder: TryFolder) -> bool:
    with folder.unlocked() as free:
        return free


def _kill_rest(folder: TryFolder, tag: str) -> None:
    """Only a shim that ended by itself has seen to what the job left behind."""
    if not _is_free(folder) or folder.exit() is None:
        _kill(folder, tag)


def _kill_orphans(folder: TryFolder, tag: str) -> None:
    """Kill what a dead shim left behind, a shim on its way included; called with the lock held."""
    folder.withdraw()
    _kill(folder, tag)
    _end_applications(folder, tag)
    _tidy(folder)


def _end_applications(folder: TryFolder, tag: str) -> None:
    """What the try left on a cluster, once none of its processes is alive. Raises `ApplicationsLeft`."""
    mark = folder.path / MARK
    if mark.exists():
        ResourceManagers(**json.loads(mark.read_text(encoding="utf-8"))).end_applications(tag)
        mark.unlink(missing_ok=True)


def _kill(folder: TryFolder, tag: str) -> None:
    for each in _tags(folder, tag):
        kill_tagged(each)


def _tidy(folder: TryFolder) -> None:
    """Credentials and temporary files do not outlive the try."""
    folder.context.unlink(missing_ok=True)
    rmtree(folder.scratch, ignore_errors=True)
    if (warm := folder.warm()) is not None:
        rmtree(warm.folder, ignore_errors=True)


def explain(end: Exit, log: Path) -> str:
    """One sentence about how the try ended, with the line of its log that says so; '' for a success."""
    if end.reason or end.exit_code == 0:
        return end.reason
    if end.stopped:
        return "the job was stopped on request"
    if end.exit_code == CLAIMED_BY_ANOTHER:
        return "another process had claimed this try before"
    if end.exit_code == 128 + Signals.SIGKILL:
        return "the job was killed (SIGKILL); if nobody did that, the machine is out of memory: lower settings.scheduler.memory_mb"
    how = f"the job {_ended(end)}"
    ending = end_of(log)
    finding = explain_log(ending.text)
    if finding is None:
        return f"{how} and said nothing"
    if ending.lines_before:
        mark(log, lines=ending.lines_before, offset=ending.offset)
    where = "; ".join(filter(None, (finding.place, f"log line {ending.lines_before + finding.line + 1}")))
    sentence = f"{how}; its last words: {finding.sentence}" if finding.guessed else finding.sentence
    return f"{sentence} ({where})"


def _ended(end: Exit) -> str:
    if end.signal is None:
        return f"ended with exit code {end.exit_code}"
    return "was ended by " + next((known.name for known in Signals if known == end.signal), f"signal {end.signal}")


@dataclass(frozen=True, kw_only=True)
class LogEnd:
    """The end of a log, from the start of a line on, which is at this offset; so many lines come before it."""

    text: str = ""
    lines_before: int = 0
    offset: int = 0


def end_of(log: Path) -> LogEnd:
    """Nothing where the log cannot be read."""
    try:
        with log.open("rb") as file:
            skipped = max(file.seek(0, SEEK_END) - TAIL, 0)
            file.seek(0)
            before = _lines_in(file, skipped)
            if before:
                file.readline()
                before += 1
            offset = file.tell()
            text = file.read(2 * TAIL).decode(errors="replace")
            return LogEnd(text=text, lines_before=before, offset=offset)
    except OSError:
        return LogEnd()


def _lines_in(file: BinaryIO, size: int) -> int:
    """How many lines end in the next `size` bytes."""
    lines = 0
    while size > 0 and (chunk := file.read(min(size, _CHUNK))):
        lines += chunk.count(b"\n")
        size -= len(chunk)
    return lines


def _read(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(_CHUNK)
    except FileNotFoundError:
        return b""
