"""Submitters that hand each try to a driver which was started for it and waits."""

from __future__ import annotations

import os
from pathlib import Path

from anyio.to_thread import run_sync

from tests.effort import PATIENCE
from tests.unit.submit.plain import workspace
from watcher.submit.base import Handle, Submission
from watcher.submit.local.folder import TryFolder
from watcher.submit.warm.driver import WarmDriver
from watcher.submit.warm.submitter import WarmSparkSubmit


class StartsWarm(WarmSparkSubmit):
    """Each submission finds one ready driver that is reserved for it."""

    async def submit(self, submission: Submission) -> Handle:
        if not self.folder(submission.key).started():
            await self.hand_over(await run_sync(self.ready_driver, submission), submission)
        return await super().submit(submission)

    async def hand_over(self, driver: WarmDriver, submission: Submission) -> None:
        folder = self.folder(submission.key)
        try:
            await run_sync(driver.hand_over, submission, folder, self.log(submission.key))
        finally:
            await run_sync(driver.end if folder.warm() is None else driver.control.close)

    def ready_driver(self, submission: Submission) -> WarmDriver:
        name = os.urandom(8).hex()
        folder = TryFolder(self.workspace.home / "warm" / name)
        driver = WarmDriver(folder=folder, tag=f"warm-{name}", log=self.workspace.logs / "warm" / f"{name}.log")
        driver.start(self.waiting_command(submission, folder, driver.tag))
        driver.control.settimeout(PATIENCE)
        assert driver.control.recv(100) == b"ready", driver.log.read_text()
        return driver


def starts_warm(home: Path) -> StartsWarm:
    return StartsWarm(workspace(home))
