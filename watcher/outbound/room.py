"""Builds the room: the outbox's sender, the neighbouring Airflow, and alerts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

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


def build_outbound(host: Host, *, instance: str, page_of: Callable[[Mapping[str, str]], str]) -> Outbound:
    """Build the room. Airflow knows our events by the id `instance`; `page_of` gives the path of an alert's page."""
    neighbour = Neighbour(
        settings=host.settings.airflow,
        instance=instance,
        database=host.database,
        leadership=host.leadership,
        hint=host.hints.give,
        health=host.health,
    )
    sender = Sender(
        database=host.database,
        leadership=host.leadership,
        destinations=[*neighbour.destinations, Alerts.of(host.settings.alerts, host.metrics)],
        health=host.health,
    )
    evaluator = Evaluator.of(host.settings, host.database, host.leadership, page_of=page_of, on_alerts=sender.wake)
    host.hints.listen("outbox", lambda _names: sender.wake())
    return Outbound(sender=sender, neighbour=neighbour, evaluator=evaluator)
