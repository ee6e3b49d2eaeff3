"""Queued events in Airflow's shapes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from watcher.api.shapes.base import Shape


class QueuedEventResponse(Shape):
    """The events of one asset that wait for the rest of one job's schedule; `created_at` is the oldest one's."""

    dag_id: str
    asset_id: int
    created_at: datetime
    dag_display_name: str


class QueuedEventCollectionResponse(Shape):
    queued_events: Sequence[QueuedEventResponse]
    total_entries: int
