"""Opens what makes processes for classes of third parties, for a daemon or a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyio.abc import TaskGroup

from config.models import Configuration
from watcher.configuration.sources import batch_limits
from watcher.features.isolation.asked_classes import AskedClasses
from watcher.features.isolation.fork_server import ForkServer
from watcher.features.isolation.inquiries import Inquirer

if TYPE_CHECKING:  # what only reads a configuration runs no triggers
    from watcher.features.isolation.child_handle import ChildSettings
    from watcher.features.isolation.trigger import OwnProcesses


@contextmanager
def open_processes(hidden: frozenset[str]) -> Iterator[ForkedProcesses]:
    """Open a fork server until the block ends. Its children do not see these variables of the environment."""
    with ForkServer(hidden) as server:
        yield ForkedProcesses(server=server)


@dataclass(frozen=True, kw_only=True)
class ForkedProcesses:
    """The `ForeignProcesses` of the kernel: children of a fork server."""

    server: ForkServer

    @contextmanager
    def classes(self, patience: float) -> Iterator[AskedClasses]:
        """Answer for classes until the block ends. Each class has `patience` seconds for an answer."""
        with Inquirer(self.server, patience=patience) as inquirer:
            yield AskedClasses(inquirer)

    def isolation(self, configuration: Configuration, tasks: TaskGroup) -> OwnProcesses:
        """Return what runs triggers in children of the fork server, with a task each."""
        from watcher.features.isolation.children import Children  # noqa: PLC0415  see above
        from watcher.features.isolation.trigger import OwnProcesses  # noqa: PLC0415

        return OwnProcesses(Children(self.server, tasks, child_settings(configuration)))


def child_settings(configuration: Configuration) -> ChildSettings:
    """Return what each trigger in a process of its own may use."""
    from watcher.features.isolation.child_handle import ChildSettings  # noqa: PLC0415  see above

    settings = configuration.settings.triggerer
    return ChildSettings(
        memory_mb=settings.isolation.memory_mb,
        limits=batch_limits(configuration),
        plugins=configuration.settings.plugins_dir,
        log_level=configuration.settings.logs.level,
        poll_timeout=settings.poll_timeout,
    )
