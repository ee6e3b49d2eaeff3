"""The probes, which anybody may call: whether the process answers, whether it is ready, and its metrics."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal

import anyio.to_thread
import structlog
from fastapi import APIRouter, Header, Response
from fastapi.responses import PlainTextResponse

from store.catalog import assets, watchers
from store.errors import SchemaOutdated
from watcher.host.health import PROBE_DEADLINE
from watcher.host.metrics_snapshot import MetricsOf, MetricsSnapshot
from watcher.installed import resolve
from watcher.scheduling.problems.problem import grouped
from watcher.scheduling.problems.sources import of_process
from watcher.serving.api.context import Context
from watcher.serving.api.document.refusals import Refusal
from watcher.serving.api.errors import UNAVAILABLE
from watcher.serving.api.problems import not_ready, problems_now
from watcher.serving.api.shapes.base import Shape

_OPEN_METRICS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"application/openmetrics-text": {"schema": {"type": "string"}}}}
}
_MOST_WARNINGS: Final = 30
"""The problems that `/readyz` names, the worst ones."""
router = APIRouter(tags=["Probes"])
log = structlog.get_logger()


class Aliveness(Shape):
    status: Literal["alive"] = "alive"


@router.get("/healthz")
async def healthz() -> Aliveness:
    """Report that the process answers."""
    return Aliveness()


class Readiness(Shape):
    status: Literal["ready", "not ready"]
    reasons: Sequence[str]
    warnings: Sequence[str]


@router.get("/readyz", responses={503: {"model": Readiness | Refusal}})
async def readyz(context: Context, response: Response) -> Readiness:
    """Report whether everything has started and works, and this process runs the applied configuration; 503 if not."""
    reasons = await not_ready(context)
    if reasons:
        response.status_code = 503
    try:
        problems = await problems_now(context, reasons)
    except (SchemaOutdated, *UNAVAILABLE):
        problems = grouped(of_process(context.process.health, reasons))  # the reasons say why
    lines = [
        problem.public for problem in problems if problem.oldest.kind != "not_ready" and problem.oldest.level != "info"
    ]
    more = [f"{len(lines) - _MOST_WARNINGS:,} more: `watcher status`"] if len(lines) > _MOST_WARNINGS else []
    status: Literal["ready", "not ready"] = "not ready" if reasons else "ready"
    return Readiness(status=status, reasons=reasons, warnings=[*lines[:_MOST_WARNINGS], *more])


@router.get("/metrics", response_class=PlainTextResponse, responses=_OPEN_METRICS)
async def metrics(context: Context, accept: Annotated[str, Header()] = "") -> Response:
    """Return the metrics. Without the database they are those that this process counts."""
    snapshot = MetricsSnapshot(is_ready=False, has_database=False)
    readers: list[MetricsOf] = [resolve(path) for path in context.features.paths("metrics").values()]
    try:
        async with context.database.reading(PROBE_DEADLINE) as connection:
            rows = [context.process.health.merged(row) for row in await watchers.listed(connection)]
            expected = await assets.expected(connection)
            of_features = [await read(connection) for read in readers]
    except UNAVAILABLE as error:
        log.warning("api.metrics_incomplete", error=str(error), kind=type(error).__name__)
    else:
        snapshot = MetricsSnapshot(
            is_ready=not await not_ready(context),
            has_database=context.database.outage is None,
            watchers=rows,
            expected=expected,
            of_features=of_features,
            description_of=context.watchers.descriptions.of_watcher,
        )
    exposition = partial(context.process.metrics.exposition, snapshot, accept)
    text, content_type = await anyio.to_thread.run_sync(exposition)
    return Response(text, headers={"Content-Type": content_type})
