"""Builds the room: one `Host` for each process, which every other room is built on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from config.models.settings import Settings
from store.database import Database
from store.processes.triggerers import ProcessInfo
from watcher.host.health import Health
from watcher.host.hint_relay import HintExchange, HintRelay
from watcher.host.home import Home
from watcher.host.leader_election import Leadership
from watcher.host.loops import Hint
from watcher.host.metrics import Metrics
from watcher.host.watchdog import Watchdog


@dataclass(frozen=True, kw_only=True, eq=False)
class Host:
    """What every room of a process shares."""

    settings: Settings
    home: Home
    process: ProcessInfo
    database: Database
    metrics: Metrics
    watchdog: Watchdog
    health: Health
    hints: HintExchange
    leadership: Leadership


def build_host(
    *, settings: Settings, home: Home, process: ProcessInfo, database: Database, on_hangup: Callable[[], None]
) -> Host:
    """Build the host of a process. `on_hangup` is called at SIGHUP. Nothing runs yet."""
    metrics = Metrics()
    watchdog = Watchdog(grace=settings.triggerer.grace, metrics=metrics, on_hangup=on_hangup)
    health = Health(recent_block=lambda: watchdog.recent_block, starts_since=datetime.now(UTC))

    def deliver(hint: Hint) -> None:
        hints.deliver(hint)

    relay = HintRelay(database=database, process_id=process.id, deliver=deliver)
    hints = HintExchange(relay=relay, leads=lambda: leadership.leads)
    leadership = Leadership(
        database=database,
        owner=home.id,
        heartbeat=settings.triggerer.heartbeat,
        lease=settings.triggerer.lease,
        on_taken=hints.look_for_runs,
        health=health,
    )
    return Host(
        settings=settings,
        home=home,
        process=process,
        database=database,
        metrics=metrics,
        watchdog=watchdog,
        health=health,
        hints=hints,
        leadership=leadership,
    )
