"""A triggerer that hosts watchers of `tests/plugins/hostile.py`, made from YAML, and the events that it committed."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
from sqlalchemy import func, select

from config.models import Configuration
from config.reading.loader import load
from store.catalog import catalog_sync, watchers
from store.catalog.watchers import WatcherRow
from store.database import Database
from store.database.schema import asset_event
from store.detection.interest import NO_HOOKS
from store.processes.triggerers import ProcessInfo
from tests.effort import PATIENCE
from tests.features import DECLARATIONS, TABLES
from watcher.configuration.declarations import declared
from watcher.configuration.sources import hosted
from watcher.features.isolation.asked_classes import AskedClasses
from watcher.features.isolation.opening import child_settings
from watcher.host.metrics import Metrics
from watcher.triggerer.clients import Clients, Hosted
from watcher.triggerer.committing import Committer
from watcher.triggerer.control import Control
from watcher.triggerer.isolation.child_handle import ChildSettings
from watcher.triggerer.isolation.children import Children
from watcher.triggerer.isolation.fork_server import ForkServer
from watcher.triggerer.isolation.inquiries import Inquirer
from watcher.triggerer.isolation.trigger import OwnProcesses
from watcher.triggerer.supervisor import Supervisor
from watcher.triggerer.triggerer import Triggerer

PLUGINS = Path(__file__).parents[2] / "plugins"


def configured(
    folder: Path,
    names: Mapping[str, Mapping[str, Any]],
    server: ForkServer | None = None,
    connections: Mapping[str, Any] | None = None,
    jobs: Mapping[str, Any] | None = None,
    **triggerer: Any,
) -> Configuration:
    """Return a configuration with one asset and one watcher for each name, with these keys. `triggerer` are settings."""
    watchers_of = {name: {"uri": f"x-test://{name}", "watchers": {name: dict(keys)}} for name, keys in names.items()}
    settings = {"plugins_dir": str(PLUGINS), "home": str(folder / "home"), "triggerer": triggerer}
    file = folder / "watchers.yaml"
    document = {"version": 1, "settings": settings, "connections": connections, "assets": watchers_of, "jobs": jobs}
    file.write_text(json.dumps(document))
    from watcher.configuration.vocabulary import vocabulary  # noqa: PLC0415  the vocabulary's plug-ins are those of the file

    with Inquirer(server) as inquirer:
        return load(file, vocabulary(AskedClasses(inquirer)), dict(os.environ))


@dataclass(eq=False)
class Host:
    """A running triggerer. `children` are the processes of its watchers."""

    database: Database
    triggerer: Triggerer
    children: Children
    control: Control
    numbers: dict[str, list[int]] = field(default_factory=dict)

    async def watcher(self, name: str) -> WatcherRow:
        async with self.database.reading() as connection:
            return await watchers.get(connection, name)

    async def failing(self, name: str, sentence: str) -> None:
        """Wait until the watcher is shown as failing with an error that contains this sentence."""
        with anyio.fail_after(PATIENCE):
            while sentence not in ((await self.watcher(name)).error or ""):
                await anyio.sleep(0.02)

    async def counted(self, name: str, number: int) -> None:
        """Wait until the watcher has emitted this number of events."""
        emitted = select(func.count()).where(asset_event.c.source_watcher == name)
        with anyio.fail_after(PATIENCE):
            while True:
                async with self.database.reading() as connection:
                    if (await connection.scalar(emitted) or 0) >= number:
                        return
                await anyio.sleep(0.02)

    def process_of(self, name: str) -> int | None:
        """Return the process of the watcher's newest child, None once that has ended."""
        child = self.children._newest.get(name)
        return None if child is None or child.finished.is_set() else child.process.id


async def counted(database: Database, name: str) -> list[int]:
    """Return the numbers in the events of a counter, in the order of the events."""
    statement = select(asset_event.c.extra).where(asset_event.c.source_watcher == name).order_by(asset_event.c.id)
    async with database.reading() as connection:
        return [json.loads(extra)["number"] for extra in await connection.scalars(statement)]


@asynccontextmanager
async def hosting(
    database: Database, configuration: Configuration, server: ForkServer, **settings: Any
) -> AsyncIterator[Host]:
    """Run a triggerer for the block. `settings` replace fields of `ChildSettings`."""
    async with database.transaction() as connection:
        applied = await catalog_sync.apply(connection, declared(configuration, DECLARATIONS), database.dialect)
    process = ProcessInfo(id=str(uuid.uuid4()), host="here", pid=1)
    committer = Committer(database=database, metrics=Metrics(), hooks=NO_HOOKS, on_events=lambda _dag_ids: None)
    limits: ChildSettings = replace(child_settings(configuration), **settings)
    poll_timeout = configuration.settings.triggerer.poll_timeout
    async with anyio.create_task_group() as tasks:
        children = Children(server, tasks, limits)
        clients = Clients(configuration.connections, tasks, OwnProcesses(children))

        def supervise(watcher: Hosted) -> Supervisor:
            return Supervisor(
                hosted=watcher,
                owner=process.id,
                database=database,
                committer=committer,
                clients=clients,
                poll_timeout=poll_timeout,
            )

        ours = hosted(configuration, applied.asset_ids)
        triggerer = Triggerer(
            database=database,
            process=process,
            hosted=ours,
            supervise=supervise,
            heartbeat=timedelta(milliseconds=100),
            lease=timedelta(seconds=60),
        )
        control = Control(tables=TABLES, database=database, hosted=ours, clients=clients, poll_timeout=poll_timeout)
        await tasks.start(triggerer.run)
        yield Host(database, triggerer, children, control)
        tasks.cancel_scope.cancel()


def is_alive(process: int) -> bool:
    """Return whether the process runs. A zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def descendants(process: int) -> set[int]:
    """Return the processes that this process started, and all that those started."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    below: set[int] = set()
    layer = {process}
    while layer:
        layer = {child for child, parent in parents.items() if parent in layer}
        below |= layer
    return below


async def gone(processes: set[int]) -> None:
    """Wait until none of these processes runs."""
    with anyio.fail_after(PATIENCE):
        while any(map(is_alive, processes)):
            await anyio.sleep(0.02)
