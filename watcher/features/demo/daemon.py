"""The daemon as a child process: started, awaited, killed, stopped. SIGKILL hits nothing else."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
import httpx

READY_WITHIN: Final = 180.0
STOP_WITHIN: Final = 45.0


class Daemon:
    """A `watcher run` on one configuration file. Its stderr goes to `daemon.log` beside that file."""

    def __init__(
        self, configuration: Path, url: str, environment: Mapping[str, str], words: Sequence[str] = ()
    ) -> None:
        self._configuration, self._environment, self._words = configuration, environment, words
        self.log = configuration.with_name("daemon.log")
        self.url = url
        self.process: anyio.abc.Process | None = None

    async def start(self) -> None:
        """Start the daemon and wait until it is ready. Raises `RuntimeError` with its last lines when it ends instead."""
        with self.log.open("ab") as log:
            self.process = await anyio.open_process(
                [sys.executable, "-m", "watcher", "run", "--upgrade", "-c", str(self._configuration), *self._words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(self._environment),
                start_new_session=True,  # Ctrl-C is for the demo, which then stops the daemon itself
            )
        async with httpx.AsyncClient(base_url=self.url) as client:
            with anyio.fail_after(READY_WITHIN):
                while not await self._ready(client):  # noqa: ASYNC110  another process has no event for us
                    await anyio.sleep(0.1)

    async def _ready(self, client: httpx.AsyncClient) -> bool:
        if self.process is None or self.process.returncode is not None:
            last = self.log.read_text(errors="replace").splitlines()[-20:]
            raise RuntimeError("the daemon ended instead of starting:\n" + "\n".join(last))
        try:
            return (await client.get("/readyz")).is_success
        except httpx.TransportError:
            return False

    async def said(self, *words: str) -> str:
        """Run a command of the program on this daemon's configuration, and return what it prints."""
        command = [sys.executable, "-m", "watcher", *words, "-c", str(self._configuration)]
        done = await anyio.run_process(command, env=dict(self._environment))
        return done.stdout.decode().strip()

    async def kill(self) -> None:
        """Kill the daemon with SIGKILL, as a power failure would."""
        await self.stop(signal.SIGKILL)

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal and wait. Return the exit code."""
        if self.process is None:
            return 0
        process, self.process = self.process, None
        if process.returncode is None:
            process.send_signal(number)
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(STOP_WITHIN):
                await process.wait()
            if process.returncode is None:
                process.kill()
            await process.wait()
        return process.returncode or 0


@asynccontextmanager
async def running_daemon(configuration: Path, url: str, environment: Mapping[str, str]) -> AsyncIterator[Daemon]:
    """Start a daemon and wait until it is ready. It is stopped when the block ends, however it ends."""
    daemon = Daemon(configuration, url, environment)
    try:
        await daemon.start()
        yield daemon
    finally:
        with anyio.CancelScope(shield=True):
            await daemon.stop()
