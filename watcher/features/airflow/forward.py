"""The outbox's destination `airflow`: creates our events in the neighbouring Airflow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from store.features.outbox.outbox import AIRFLOW, OutboxMessage
from watcher.features.airflow.client import AirflowClient, AirflowError, AirflowRefused, AirflowSilent
from watcher.features.outbox.delivery import Delivered, DeliveryRefused, Failed, Outcome, Unclear

NEEDS_PARTITION_KEYS: Final = "Airflow knows partition keys from 3.2 on: upgrade an older one, or remove partition_key from settings.airflow.forward"
_UNKNOWN_FIELD: Final = 422
MARK: Final = "asset_watcher"
"""The key in an event's `extra` that marks it as ours and identifies it."""


@dataclass(frozen=True, kw_only=True)
class Forward:
    """Delivers each event at least once. An event that Airflow has twice has the same `event_id` twice."""

    client: AirflowClient
    instance: str
    lateness: timedelta
    name: str = AIRFLOW

    @property
    def timeout(self) -> timedelta:
        """The time limit of one request of the client."""
        return self.client.timeout

    async def deliver(self, message: OutboxMessage) -> Outcome:
        """Create the event in Airflow."""
        target = message.target or ""
        try:
            asset_id = await self.client.asset_id(target)
        except AirflowError as error:
            return _not_sent(error)
        try:
            await self.client.create_event(asset_id, marked(message.body, self._mark(message)), message.partition_key)
        except AirflowSilent as error:
            return Unclear(reason=str(error))
        except AirflowError as error:
            self.client.forget(target)
            if (
                isinstance(error, AirflowRefused)
                and error.status == _UNKNOWN_FIELD
                and message.partition_key is not None
            ):
                return DeliveryRefused(reason=f"{error}; {NEEDS_PARTITION_KEYS}")
            return _not_sent(error)
        return Delivered()

    async def look_up(self, message: OutboxMessage) -> Outcome | None:
        """Return `Delivered` if the asset has the event among those since the first attempt, else None."""
        since = None if message.first_attempt_at is None else message.first_attempt_at - self.lateness
        mark = self._mark(message)
        try:
            asset_id = await self.client.asset_id(message.target or "")
            async for page in self.client.events(asset_id, since):
                if any(event.extra.get(MARK) == mark for event in page):
                    return Delivered()
        except AirflowError as error:
            self.client.forget(message.target or "")
            return _not_sent(error)
        return None

    def _mark(self, message: OutboxMessage) -> Mapping[str, str]:
        event_id = message.message_id or f"{self.instance}:{message.asset_event_id}"
        return {"instance": self.instance, "event_id": event_id}


def marked(extra: str, mark: Mapping[str, str]) -> str:
    """Return the JSON object's text with the mark added. Its numbers remain as they are written."""
    inner = extra.strip()[1:-1].strip()
    return f'{{{inner}{", " if inner else ""}"{MARK}": {json.dumps(dict(mark))}}}'


def is_ours(extra: Mapping[str, Any], instance: str) -> bool:
    """Return whether an event of Airflow is one that we created."""
    mark = extra.get(MARK)
    return isinstance(mark, dict) and mark.get("instance") == instance


def _not_sent(error: AirflowError) -> Outcome:
    """Return the outcome of an error after which no event exists: it was not sent, or it was refused."""
    return DeliveryRefused(reason=str(error)) if isinstance(error, AirflowRefused) else Failed(reason=str(error))
