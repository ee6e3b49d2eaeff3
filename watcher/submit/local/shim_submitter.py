"""The submitter of jobs that run on this machine under `shim.py`: the whole contract, except which command is run."""

from __future__ import annotations

import json
import subprocess
import sys
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

import anyio
from anyio.to_thread import run_sync

from store.keys import TryKey
from watcher.host.logs import try_log
from watcher.host.logs.reader import pieces
from watcher.submit.base import Addresses, Attachment, Handle, Status, Submission, SubmitError, Submitter
from watcher.submit.local import shim
from watcher.submit.local.folder import TryFolder, try_folder
from watcher.submit.local.local_try import LocalTry
from watcher.submit.local.processes import TAG_VARIABLE

_START_TIMEOUT: Final = 60.0
_KILL_MARGIN: Final = 5.0
_CHECK_EVERY: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class Command:
    """What the shim runs. `argv[0]` is an absolute path; `files` are written (0600) into the try's folder beforehand."""

    argv: list[str]
    environment: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)


class ShimSubmitter(Submitter):
    """Linux only. All that is known of a try is in its folder; the handle only says where it is, so it never goes stale."""

    ends_with_home = True

    @abstractmethod
    def command(self, submission: Submission, folder: TryFolder) -> Command:
        """Return what to run; called in a thread. Raises `SubmitError` if the machine lacks what the job needs."""

    def end_applications(self, folder: TryFolder, tag: str) -> None:
        """End what the try left outside this machine, after its processes are gone. Blocking; may be called again.

        Raises any exception as long as something may be left: then the try is not over.
        """

    def folder(self, key: TryKey) -> TryFolder:
        return TryFolder(try_folder(self.workspace.home, key))

    def log(self, key: TryKey) -> Path:
        """The try's log. The driver's stdout and stderr are appended (O_APPEND), and so are the daemon's records."""
        return try_log(self.workspace.logs, key.dag_id, key.run_id, key.task_id, key.map_index, key.try_number)

    def handle(self, key: TryKey, tag: str) -> Handle:
        """Return the handle that `submit` returns."""
        folder = self.folder(key)
        start = {} if folder.warm() is None else {"start": "warm"}
        return {"folder": str(folder.path), "log": str(self.log(key)), "tag": tag, **start}

    async def submit(self, submission: Submission) -> Handle:
        return await run_sync(self._submit, submission)

    async def attach(self, key: TryKey, tag: str, handle: Handle | None) -> Handle | Attachment:
        local_try = self._local_try(self.folder(key), tag)
        missing = await run_sync(lambda: local_try.missing(has_handle=handle is not None))
        return self.handle(key, tag) if missing is None else missing

    async def poll(self, handle: Handle) -> Status:
        """Return the try's state. What is left of a lost try is killed; raises while a cluster may still hold some of it."""
        return await run_sync(self._of_handle(handle).status, Path(handle["log"]))

    async def cancel(self, handle: Handle, grace: float) -> None:
        local_try = self._of_handle(handle)
        by_shim = await run_sync(local_try.request_stop, grace)
        with anyio.move_on_after(grace + (_KILL_MARGIN if by_shim else 0)):
            while not await run_sync(local_try.folder.is_free):  # noqa: ASYNC110 - a lock has no event to wait for
                await anyio.sleep(_CHECK_EVERY)
        await run_sync(local_try.kill_rest)

    def logs(self, handle: Handle, offset: int) -> AsyncIterator[bytes]:
        return pieces(Path(handle["log"]), offset)

    def api_url(self, addresses: Addresses) -> str:
        return addresses.local

    def _of_handle(self, handle: Handle) -> LocalTry:
        return self._local_try(TryFolder(Path(handle["folder"])), handle["tag"])

    def _local_try(self, folder: TryFolder, tag: str) -> LocalTry:
        return LocalTry(folder=folder, tag=tag, end_applications=self.end_applications)

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
                _withdraw(folder, f"the job could not be started from {folder.path}: {error}")
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
        _withdraw(folder, f"the process that starts the job failed; {output.name} says why")


def _withdraw(folder: TryFolder, sentence: str) -> None:
    """Raise `SubmitError` with the sentence if it is certain that nothing runs, and that nothing will."""
    with folder.unlocked() as free:
        if free and not folder.started():
            folder.withdraw()
            raise SubmitError(sentence)
