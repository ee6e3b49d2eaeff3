"""One watcher's trigger, from its configuration: the only place that makes triggers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from triggers.base import BaseEventTrigger, TriggerContext
from watcher.triggerer.clients import Clients


@dataclass(frozen=True, kw_only=True)
class BatchLimits:
    """What one batch may hold at most: events, and bytes of their JSON."""

    max_events: int
    max_bytes: int


@dataclass(frozen=True, kw_only=True)
class Hosted:
    """A watcher as the triggerer hosts it: validated options, and the class they belong to."""

    name: str
    asset: str
    asset_id: int
    trigger: type[BaseEventTrigger[Any, Any]]
    options: BaseModel
    connection: str | None
    limits: BatchLimits | None = None
    """None: a shipped trigger, which divides what it finds by its own options."""


async def build(
    hosted: Hosted, clients: Clients, poll_timeout: timedelta, *, dry_run: bool = False
) -> BaseEventTrigger[Any, Any]:
    """A new trigger on the connection's shared client. Raises whatever its constructor raises."""
    client = await clients.get(hosted.connection)
    context = TriggerContext(watcher=hosted.name, poll_timeout=poll_timeout, dry_run=dry_run)
    return hosted.trigger(hosted.options, client, context)
