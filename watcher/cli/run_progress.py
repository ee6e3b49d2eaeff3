"""`watcher runs watch`: runs as they go on, with a bar for each on a terminal, a line for each change elsewhere."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, Final, Protocol

import anyio

from watcher.cli.api_client import ApiClient
from watcher.cli.output import Show
from watcher.cli.runs import path_of, runs_path

EVERY: Final = 1.0
"""Seconds between two looks."""
MOST: Final = 20
"""Runs that are watched at a time, the oldest first."""
OVER: Final = frozenset({"success", "failed"})


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run is; what Spark has not told yet is None."""

    dag_id: str
    dag_run_id: str
    state: str
    try_number: int
    tasks_done: int | None
    tasks: int | None
    detail: str | None

    @property
    def key(self) -> tuple[str, str]:
        return self.dag_id, self.dag_run_id

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    def __str__(self) -> str:
        tasks = "" if self.tasks is None else f"  {self.tasks_done} of {self.tasks} tasks"
        tries = f"  try {self.try_number}" if self.try_number > 1 else ""
        detail = f"  {self.detail}" if self.detail else ""
        return f"{self.dag_id}  {self.dag_run_id}  {self.state}{tries}{tasks}{detail}"


class Display(Protocol):
    def __call__(self, looked_at: Sequence[Progress]) -> None:
        """Show what a look saw."""


async def watch_runs(api: ApiClient, show: Show, job: str, run_id: str | None) -> bool:
    """Until it is over, or for ever; whether it has failed."""
    looks = _looks_at_active(api, job) if run_id is None else _looks_at(api, job, run_id)
    newest: Sequence[Progress] = ()
    with _display(show) as display:
        async for newest in looks:
            display(newest)
    return any(progress.state == "failed" for progress in newest)


async def _looks_at(api: ApiClient, job: str, run_id: str) -> AsyncIterator[Sequence[Progress]]:
    while True:
        progress = await _progress(api, await api.get(path_of(job, run_id)))
        yield [progress]
        if progress.is_over:
            return
        await anyio.sleep(EVERY)


async def _looks_at_active(api: ApiClient, job: str) -> AsyncIterator[Sequence[Progress]]:
    """Each look has also those that have ended since the one before. Ends by being interrupted."""
    active: set[tuple[str, str]] = set()
    while True:
        query = {"state": ["queued", "running"], "order_by": "id", "limit": MOST}
        rows = (await api.get(runs_path(job), **query))["dag_runs"]
        keys = {(run["dag_id"], run["dag_run_id"]) for run in rows}
        rows += [await api.get(path_of(*key)) for key in sorted(active - keys)]
        looked_at = [await _progress(api, run) for run in rows]
        yield looked_at
        active = {progress.key for progress in looked_at if not progress.is_over}
        await anyio.sleep(EVERY)


async def _progress(api: ApiClient, run: Mapping[str, Any]) -> Progress:
    """Of a run, with what its newest task instance tells."""
    path = f"{path_of(run['dag_id'], run['dag_run_id'])}/taskInstances"
    [*_, task] = (await api.get(path))["task_instances"] or [{}]
    tasks = task.get("progress") or {}
    return Progress(
        dag_id=run["dag_id"],
        dag_run_id=run["dag_run_id"],
        state=run["state"],
        try_number=task.get("try_number", 0),
        tasks_done=tasks.get("tasks_done"),
        tasks=tasks.get("tasks"),
        detail=run["reason"] or task.get("detail"),
    )


def _display(show: Show) -> AbstractContextManager[Display]:
    if show.for_people and sys.stdout.isatty():
        from watcher.cli.progress_bars import bars  # noqa: PLC0415  see watcher.cli

        return bars()
    return _lines(show)


@contextmanager
def _lines(show: Show) -> Iterator[Display]:
    """What has changed since the look before."""
    before: dict[tuple[str, str], Progress] = {}
    write = show.stream(lambda record: str(Progress(**record)), [field.name for field in dataclass_fields(Progress)])

    def display(looked_at: Sequence[Progress]) -> None:
        for progress in looked_at:
            if before.get(progress.key) != progress:
                before[progress.key] = progress
                write(vars(progress))

    yield display
