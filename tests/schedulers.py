"""Schedulers with the steps and planners of all features, as a daemon has them."""

from __future__ import annotations

from collections.abc import Callable

from store.database import Database
from tests.features import ITEM_HOOKS
from watcher.configuration.declarations import planners, steps
from watcher.host.leader_election import Leadership
from watcher.scheduling.planning.scheduler import Scheduler


def make_scheduler(
    database: Database,
    leadership: Leadership,
    on_runs: Callable[[], None] = lambda: None,
) -> Scheduler:
    return Scheduler(database, leadership, on_runs=on_runs, steps=steps(), planners=planners(), item_hooks=ITEM_HOOKS)
