"""Opens what runs triggers in processes of their own, for a daemon or a command, as its configuration wants it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio.abc import TaskGroup

from config.models import Configuration
from watcher.configuration.sources import batch_limits
from watcher.triggerer.clients import tasks_of_block
from watcher.triggerer.isolation.child_handle import ChildSettings
from watcher.triggerer.isolation.children import Children
from watcher.triggerer.isolation.fork_server import ForkServer
from watcher.triggerer.isolation.trigger import OwnProcesses


def child_settings(configuration: Configuration) -> ChildSettings:
    """Return what each trigger in a process of its own may use."""
    settings = configuration.settings.triggerer
    return ChildSettings(
        memory_mb=settings.isolation.memory_mb,
        limits=batch_limits(configuration),
        plugins=configuration.settings.plugins_dir,
        log_level=configuration.settings.logs.level,
        poll_timeout=settings.poll_timeout,
    )


@asynccontextmanager
async def open_isolation(configuration: Configuration) -> AsyncIterator[OwnProcesses]:
    """Open a fork server of a command's own until the block ends. Triggers do not see the configuration's environment."""
    with ForkServer(configuration.environment) as server:
        async with tasks_of_block() as tasks:
            yield own_processes(configuration, server, tasks)


def own_processes(configuration: Configuration, server: ForkServer, tasks: TaskGroup) -> OwnProcesses:
    """Return what runs triggers in children of this fork server, with a task each."""
    return OwnProcesses(Children(server, tasks, child_settings(configuration)))
