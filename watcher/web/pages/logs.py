"""A watcher's log and a try's: the last lines, or those around a write, with that write marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final

import anyio.to_thread
from fastapi import APIRouter, Query, Response

from store.catalog import watchers
from store.keys import TaskInstanceKey
from watcher.api.context import ApiContext
from watcher.api.parameters import BIGGEST, MapIndex
from watcher.api.routes.logs import LogOfTry, LogQuery, TryNumber, WriteId, excerpt, log_of_try
from watcher.logs.paths import watcher_logs
from watcher.logs.reader import Log, Record, around_line
from watcher.web.addresses import path
from watcher.web.rendering import Pages

router = APIRouter(include_in_schema=False)
_LINES: Final = 100
"""On each side of a write; the last ones are twice as many."""
_REMOTE_LINES: Final = 1000
_SHOWN_FIRST: Final = ("timestamp", "level", "event", "exception", "rolled_back")


@dataclass(frozen=True, kw_only=True)
class Line:
    """A log line as a page shows it."""

    record: Record
    is_marked: bool = False
    """It tells of the write that was asked for."""
    is_first: bool = False
    """The first that does: where links lead."""

    @property
    def level(self) -> str:
        return str(self.record.get("level", ""))

    @property
    def rest(self) -> Mapping[str, Any]:
        """What the line says beside time, level and event."""
        return {name: value for name, value in self.record.items() if name not in _SHOWN_FIRST}


def lines(records: Sequence[Record], write_id: str | None = None) -> Sequence[Line]:
    """The records; those of the write are marked."""
    marked = [place for place, record in enumerate(records) if write_id and record.get("write_id") == write_id]
    return [
        Line(record=record, is_marked=place in marked, is_first=marked[:1] == [place])
        for place, record in enumerate(records)
    ]


def last_lines(around: str | None = None, count: int = _LINES) -> LogQuery:
    return LogQuery(around=around, before=count, after=count, following=False)


@router.get("/watchers/{name}/log")
async def of_watcher(view: Pages, name: str, around: WriteId = None) -> Response:
    """Also of one that is configured no more: what it wrote still leads here."""
    logs = partial(watcher_logs, view.context.logs_directory, name)
    if around is None and not await anyio.to_thread.run_sync(logs):
        async with view.context.database.reading() as connection:
            await watchers.get(connection, name)
    return await _page(view, logs, around, name, path("watchers", name), path("api", "v2", "watchers", name, "logs"))


@router.get("/runs/{dag_id}/{run_id}/log/{task_id}/{try_number}")
async def of_try(
    view: Pages,
    dag_id: str,
    run_id: str,
    task_id: str,
    try_number: TryNumber,
    around: WriteId = None,
    map_index: MapIndex = -1,
    line: Annotated[int | None, Query(ge=1, le=BIGGEST)] = None,
) -> Response:
    """`line` counts from 1, as the reasons of failed runs do."""
    instance = TaskInstanceKey(dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=map_index)
    log = await log_of_try(view.context, instance, try_number)
    title, above = f"{dag_id}, try {try_number}", path("runs", dag_id, run_id)
    api = api_path(instance, try_number)
    if log.remote is not None and around is None:
        part = await log.fragment(0, _REMOTE_LINES)
        return view.page("log.html", title=title, above=above, api=api, around=None, lines=lines(part.records))
    if line is not None and around is None:
        numbered = await anyio.to_thread.run_sync(partial(around_line, log.path, line, before=_LINES, after=_LINES))
        shown = [Line(record=record, is_marked=place == line, is_first=place == line) for place, record in numbered]
        return view.page("log.html", title=title, above=above, api=api, around=f"line {line}", lines=shown)
    return await _page(view, lambda: [[log.path]], around, title, above, api)


def api_path(instance: TaskInstanceKey, try_number: int) -> str:
    """Where the API has a try's log, below the root."""
    of_run = ("api", "v2", "dags", instance.dag_id, "dagRuns", instance.run_id)
    mapped = None if instance.map_index < 0 else instance.map_index
    return path(*of_run, "taskInstances", instance.task_id, "logs", try_number, map_index=mapped)


async def _page(
    view: Pages, logs: Callable[[], Sequence[Log]], around: str | None, title: str, above: str, api: str
) -> Response:
    records = await excerpt(view.context, logs, last_lines(around))
    shown = lines(records, around)
    return view.page("log.html", title=title, above=above, api=api, around=around, lines=shown)


async def tail(context: ApiContext, log: LogOfTry, count: int) -> Sequence[Line]:
    """The last lines of a try, for the page of its run."""
    if log.remote is not None:
        return lines((await log.fragment(0, _REMOTE_LINES)).records[-count:])
    return lines(await excerpt(context, lambda: [[log.path]], last_lines(count=count // 2)))
