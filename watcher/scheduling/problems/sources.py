"""The sources of problems: each feature reads its own from the database, and a process knows of itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog.watchers import WatcherRow
from watcher.host.health import Health
from watcher.scheduling.planning.base import Planners
from watcher.scheduling.problems.problem import Level, StandingProblem, cause_of


@dataclass(frozen=True, kw_only=True)
class ProblemsLook:
    """A look at the database for problems, at `now` by the database's clock."""

    connection: AsyncConnection
    now: datetime
    planners: Planners
    rows: Sequence[WatcherRow] | None = None
    """The configured watchers that may have a problem, if the caller has read them already."""


ProblemsOf: TypeAlias = Callable[[ProblemsLook], Awaitable[Sequence[StandingProblem]]]
"""Reads the problems that a feature knows of from the database."""


async def read_problems(look: ProblemsLook, readers: Sequence[ProblemsOf]) -> list[StandingProblem]:
    """Return what every reader finds, in their order."""
    return [problem for read in readers for problem in await read(look)]


def of_process(health: Health, reasons: Sequence[str]) -> Iterator[StandingProblem]:
    """Yield the `reasons` why the process is not ready, and what else it knows of itself."""
    for reason in reasons:
        yield _of_sentence("not_ready", "error", reason)
    for warning in health.warnings():
        yield _of_sentence("process", "warning", warning)
    for folder, fault in health.folders.items():
        yield StandingProblem(
            kind="logs",
            level="error",
            subject={"folder": str(folder)},
            message=fault.sentence,
            public=fault.sentence,
            remedy="free space there, or let this account write there: jobs fail until then",
            since=fault.since,
        )


def _of_sentence(kind: str, level: Level, sentence: str) -> StandingProblem:
    return StandingProblem(
        kind=kind, level=level, subject={"sentence": cause_of(sentence)}, message=sentence, public=sentence
    )
