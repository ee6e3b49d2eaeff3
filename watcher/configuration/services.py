"""What features run in a process, and what they are built from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import anyio
import structlog
from anyio.abc import TaskStatus

from config.models.settings import Settings
from store.database import Database
from store.detection.interest import EventHooks
from watcher.host.containment import Service, is_cancelled, sentence
from watcher.host.health import Health
from watcher.host.room import Host
from watcher.installed import Installed
from watcher.scheduling.planning.base import Planners
from watcher.triggerer.clients import Hosted


@dataclass(frozen=True, kw_only=True)
class ServiceContext:
    """What a service is built from."""

    host: Host
    installation: str
    """The id of the metadata database, by which other systems know it."""
    features: Installed
    """The features that have something to do in this process."""
    hooks: EventHooks
    """What features do in the transactions of events, for services that append some."""
    planners: Planners
    """The planners of jobs, which the scheduler has, too."""
    hosted: Callable[[], Mapping[str, Hosted]]
    """Returns the configured watchers as they are at the moment."""


ServiceBuilder: TypeAlias = Callable[[ServiceContext], Service]
"""Makes a service. It does no I/O and raises nothing: whatever may fail belongs into the service itself.

It is called once, before anything runs. One of another distribution is called again for each new start of its service.
"""

StartCheck: TypeAlias = Callable[[Database, Settings, Mapping[str, str]], Awaitable[None]]
"""Checks something before a process starts, with its environment. Raises `StartRefused` with a sentence that names the remedy."""

AGAIN_AFTER: Final = 30.0
"""Seconds after which a service of another distribution is started again that has ended."""

log = structlog.get_logger()


def contained(name: str, build: Callable[[], Service], health: Health) -> Service:
    """Return a service whose end ends nothing else: it is built and started again after a pause, and until then it is a problem."""

    async def contain(*, task_status: TaskStatus[None]) -> None:
        task_status.started()  # nothing waits for it
        while True:
            try:
                await build()(task_status=anyio.TASK_STATUS_IGNORED)
                reason = "without an error"
            except BaseException as error:
                if is_cancelled():
                    raise
                reason = sentence(error)
                log.exception("service.failed", service=name, again_after=AGAIN_AFTER)
            health.concerns[name] = f"{name} has ended ({reason}); it is started again, correct its feature"
            await anyio.sleep(AGAIN_AFTER)
            health.concerns.pop(name)

    return contain
