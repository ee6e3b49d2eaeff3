"""What a daemon does about its pods in the background: it watches them and their warnings, and sweeps up what tries left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import anyio
import structlog

from triggers.shared.delays import sleep_for
from watcher.features.kubernetes.api import PodApi
from watcher.features.kubernetes.pod_watch import EventWatch, PodWatch
from watcher.features.kubernetes.removal import sweep
from watcher.host.loops import keep_going
from watcher.submit.base import TryRecords

SWEEP_EVERY: Final = 300.0
"""Seconds between two sweeps."""
_AFTER_FAILURE: Final = 15.0

log = structlog.get_logger()


class InstallationWatch:
    """The pods of one installation. `records` None: this process does not know the tries, and sweeps nothing."""

    def __init__(
        self, api: PodApi, installation: str, records: TryRecords | None, sweep_every: float = SWEEP_EVERY
    ) -> None:
        self._api = api
        self._installation = installation
        self._records = records
        self._sweep_every = sweep_every
        self._pods = PodWatch(api, installation)
        self._events = EventWatch(api)

    def pod(self, name: str) -> Mapping[str, Any] | None:
        """The pod of this name as it was last reported. One that is missing here may exist."""
        return self._pods.get(name)

    def warning(self, uid: str) -> str:
        """What the cluster's events last warned of the pod with this uid; '' for nothing."""
        return self._events.warning(uid)

    async def run(self) -> None:
        """Work until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._pods.run)
            tasks.start_soon(self._events.run)
            if self._records is not None:
                tasks.start_soon(self._keep_sweeping, self._records)

    async def _keep_sweeping(self, records: TryRecords) -> None:
        while True:
            pause = _AFTER_FAILURE
            async with keep_going("kubernetes.sweep_failed"):
                if removed := await sweep(self._api, self._installation, records.kept):
                    log.info("kubernetes.swept", removed=removed)
                pause = self._sweep_every
            await sleep_for(pause)
