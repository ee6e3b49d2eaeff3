"""What is wrong with messages that do not arrive, and how many wait: for the list of problems, and for Prometheus."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from store.detection import outbox
from store.detection.outbox import AIRFLOW, StuckLane
from watcher.host.metrics_snapshot import FeatureMetrics, gauge
from watcher.scheduling.problems.problem import StandingProblem
from watcher.scheduling.problems.sources import ProblemsLook

LATE_AFTER: Final = timedelta(minutes=5)
"""The time after which a message that does not arrive is an error, although nobody has refused it."""


async def metrics(connection: AsyncConnection) -> FeatureMetrics:
    """Return how many messages wait for each destination, and the assets whose events Airflow refuses."""
    text = "Messages that wait to be sent to another system"
    depths = (((name,), messages) for name, messages in (await outbox.depths(connection)).items())
    refused = [lane.asset for lane in await outbox.stuck(connection) if lane.refused and lane.asset is not None]
    return FeatureMetrics(
        families=[gauge("outbox_depth", text, ("destination",), depths)],
        findings=[("", asset, "forward") for asset in refused],
    )


async def problems(look: ProblemsLook) -> Sequence[StandingProblem]:
    """Return the problems of the lanes whose first message does not arrive."""
    return [of_lane(lane, look.now) for lane in await outbox.stuck(look.connection)]


def of_lane(lane: StuckLane, now: datetime) -> StandingProblem:
    """Return the problem of a webhook, a mail server or Airflow that does not take what it is sent."""
    of_airflow = lane.destination == AIRFLOW
    what = f"events of the asset {lane.asset} do not reach Airflow" if of_airflow else "an alert does not arrive"
    remedy = "" if lane.refused else "it is sent again by itself; look at the receiver, and at settings."
    return StandingProblem(
        kind="undelivered",
        level="error" if lane.refused or now - lane.since > LATE_AFTER else "warning",
        subject={"asset": lane.asset}
        if of_airflow and lane.asset
        else {"destination": lane.destination, "lane": lane.lane},
        message=f"{what}: {lane.error}",
        public=f"{what}: {lane.error}",
        cause=f"{lane.destination} {lane.error}",
        remedy=remedy and remedy + ("airflow" if of_airflow else "alerts"),
        since=lane.since,
        next_try_at=lane.next_try_at,
    )
