"""The logs of drivers: copied from their nodes now and then while they run, and up to their end once they are over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.to_thread import run_sync

from watcher.features.kubernetes.api import PodApi
from watcher.features.kubernetes.pod_log import MOST_AT_ONCE, CopiedLog, CopyPace
from watcher.features.kubernetes.refusals import AnswerLost, ApiRefused
from watcher.host.logs import driver_log, end_of_copy
from watcher.host.logs.reader import pieces
from watcher.submit.base import Handle


@dataclass
class DriverLogs:
    """The copies of one process below `folder`, where those of other processes are too: only one process copies a log at a time."""

    folder: Path
    _paces: dict[str, CopyPace] = field(default_factory=dict)
    """How each driver's log is copied, by the pod's uid."""

    def copy_of(self, handle: Handle) -> CopiedLog:
        file = driver_log(self.folder, **handle["log"])
        return CopiedLog(file, end_of_copy(file))

    async def copy_now_and_then(self, api: PodApi, handle: Handle) -> None:
        """Copy what is new in the log of a driver that runs, if it is time for that."""
        pace = self._pace(handle)
        if pace.is_due(anyio.current_time()):
            await self._copy(api, handle, pace, is_over=False)
            pace.note(anyio.current_time())

    async def copy_to_the_end(self, api: PodApi, handle: Handle) -> None:
        await self._copy(api, handle, self._pace(handle), is_over=True)
        self._paces.pop(handle["uid"], None)

    def read(self, handle: Handle, offset: int) -> AsyncIterator[bytes]:
        """Return the copy's bytes from `offset` on. A log that is read is copied more often for a while."""
        if (pace := self._paces.get(handle["uid"])) is not None:
            pace.read_at = anyio.current_time()
        return pieces(self.copy_of(handle).file, offset)

    def _pace(self, handle: Handle) -> CopyPace:
        return self._paces.setdefault(handle["uid"], CopyPace())

    async def _copy(self, api: PodApi, handle: Handle, pace: CopyPace, *, is_over: bool) -> None:
        """Copy what is new. What the node does not give any more is gone, and fails nothing."""
        log, is_whole = self.copy_of(handle), False
        try:
            while not is_whole:
                if pace.copied is None:
                    pace.copied = await run_sync(log.read_state)
                answer = await api.log(handle["pod"], since=pace.copied.since, most_bytes=MOST_AT_ONCE)
                is_whole = len(answer) < MOST_AT_ONCE
                ending = b"\n" if is_over and is_whole and answer and not answer.endswith(b"\n") else b""
                copied = await run_sync(log.add, answer + ending)
                if copied == pace.copied:
                    break
                pace.copied = copied
        except (ApiRefused, AnswerLost) as error:
            if is_over:
                await run_sync(log.note_lost, str(error))
