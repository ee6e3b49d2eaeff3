"""Builds the room: the outbox's sender, the neighbouring Airflow, and alerts."""

from __future__ import annotations

from dataclasses import dataclass

from store.detection.interest import EventHooks
from watcher.host.room import Host
from watcher.outbound.airflow.neighbour import Neighbour
from watcher.outbound.alerts import Alerts, Evaluator
from watcher.outbound.outbox.sender import Sender


@dataclass(frozen=True, kw_only=True, eq=False)
class Outbound:
    """What a process sends to other systems while it leads."""

    sender: Sender
    neighbour: Neighbour
    evaluator: Evaluator


def build_outbound(host: Host, hooks: EventHooks, *, instance: str) -> Outbound:
    """Build the room. Airflow knows our events by the id `instance`; `hooks` are for events that are read there."""
    neighbour = Neighbour(
        settings=host.settings.airflow,
        instance=instance,
        database=host.database,
        leadership=host.leadership,
        hint=host.hints.give,
        hooks=hooks,
        health=host.health,
    )
    sender = Sender(
        database=host.database,
        leadership=host.leadership,
        destinations=[*neighbour.destinations, Alerts.of(host.settings.alerts, host.metrics)],
    )
    evaluator = Evaluator.of(host.settings, host.database, host.leadership, on_alerts=sender.wake)
    host.hints.listen("outbox", lambda _names: sender.wake())
    return Outbound(sender=sender, neighbour=neighbour, evaluator=evaluator)
