"""Where classes of third parties run: in processes of their own, if a feature makes them; a process without it imports them itself."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from anyio.abc import TaskGroup

from config.models import Configuration
from config.reading.loader import load
from watcher.configuration.vocabulary import ForeignClasses, vocabulary
from watcher.installed import installed, resolve
from watcher.triggerer.clients import Isolation, tasks_of_block

IMPORTED_WITHIN: Final = 60.0
"""Seconds that a class gets to be imported, and to check what a configuration says."""
DESCRIBED_WITHIN: Final = 5.0
"""Seconds that a class gets to describe a watermark."""


class ForeignProcesses(Protocol):
    """What makes processes for classes that this one does not import. Its methods may block."""

    def classes(self, patience: float) -> AbstractContextManager[ForeignClasses | None]:
        """Answer for such classes until the block ends, each time within `patience` seconds. None: this process imports them."""

    def isolation(self, configuration: Configuration, tasks: TaskGroup) -> Isolation | None:
        """Return what runs triggers in processes of their own, with a task each. None: a trigger that needs one is refused."""


OpenProcesses: TypeAlias = Callable[[frozenset[str]], AbstractContextManager[ForeignProcesses]]
"""Opens what makes processes until the block ends. They do not see these variables of the environment."""


class _NoProcesses:
    """What there is without the feature: nothing runs in another process."""

    @contextmanager
    def classes(self, patience: float) -> Iterator[None]:  # noqa: ARG002
        yield None

    def isolation(self, configuration: Configuration, tasks: TaskGroup) -> None:  # noqa: ARG002
        return None


@contextmanager
def open_processes(hidden: frozenset[str] = frozenset()) -> Iterator[ForeignProcesses]:
    """Open what makes processes for classes of third parties. `hidden` are variables of the environment that they do not see.

    A daemon opens it before it holds locks or sockets, or has threads. The first process that is needed is what takes time.
    """
    brought = [*installed().paths("isolation").values()]
    if not brought:
        yield _NoProcesses()
        return
    opened: OpenProcesses = resolve(brought[0])
    with opened(hidden) as processes:
        yield processes


@asynccontextmanager
async def open_isolation(configuration: Configuration) -> AsyncIterator[Isolation | None]:
    """Open what runs triggers in processes of their own for a command. They do not see the configuration's environment."""
    with open_processes(configuration.environment) as processes:
        async with tasks_of_block() as tasks:
            yield processes.isolation(configuration, tasks)


def load_with_plugins(
    path: Path, *, with_files: bool = False, processes: ForeignProcesses | None = None
) -> Configuration:
    """Load a configuration with the environment of this process. See `load`, and `load_configuration` of the commands.

    `processes` makes those that check the keys of plug-ins; None opens some when there are any. Blocks.
    """
    if processes is None:
        with open_processes() as opened:
            return load_with_plugins(path, with_files=with_files, processes=opened)
    with processes.classes(IMPORTED_WITHIN) as classes:
        return load(path, vocabulary(classes), os.environ, with_files=with_files)
