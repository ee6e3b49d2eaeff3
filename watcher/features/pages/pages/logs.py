"""The pages of a watcher's log and of a try's log: the last lines, or lines around a write, a time or a line, which is marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import anyio.to_thread
from fastapi import APIRouter, Depends, HTTPException, Query, Response

from store.catalog import watchers
from store.database.schema import in_utc
from store.errors import NotFound, no_watcher
from store.keys import TaskInstanceKey
from store.runs import runs
from watcher.features.pages.rendering import Pages, View
from watcher.host.logs.paths import watcher_logs
from watcher.host.logs.reader import Log, Record, around_line
from watcher.host.page_paths import path
from watcher.serving.api.context import ApiContext
from watcher.serving.api.parameters import BIGGEST, MapIndex
from watcher.serving.api.routes.logs import LogOfTry, LogQuery, TryNumber, WriteId, at_moment, excerpt, log_of_try

router = APIRouter(include_in_schema=False)
_LINES: Final = 100
"""Lines on each side of a write. The last lines are twice as many."""
_REMOTE_LINES: Final = 1000
_SHOWN_FIRST: Final = ("timestamp", "level", "event", "exception", "rolled_back")


@dataclass(frozen=True, kw_only=True)
class Line:
    """A log line as a page shows it."""

    record: Record
    is_marked: bool = False
    """Whether it is a line that was requested."""
    is_first: bool = False
    """Whether it is the first marked line, to which links lead."""

    @property
    def level(self) -> str:
        return str(self.record.get("level", ""))

    @property
    def rest(self) -> Mapping[str, Any]:
        """The other fields of the line, without time, level and event."""
        return {name: value for name, value in self.record.items() if name not in _SHOWN_FIRST}


def lines(records: Sequence[Record], write_id: str | None = None) -> Sequence[Line]:
    """Return the records as lines. Those of the write are marked."""
    shown = _one_line_for_each_write(records)
    marked = [place for place, record in enumerate(shown) if write_id and record.get("write_id") == write_id]
    return [
        Line(record=record, is_marked=place in marked, is_first=marked[:1] == [place])
        for place, record in enumerate(shown)
    ]


def _one_line_for_each_write(records: Sequence[Record]) -> Sequence[Record]:
    """Leave out that a write begins where its end is among the records. One that ended otherwise keeps its line."""
    written = {record.get("write_id") for record in records if record.get("event") == "store.written"}
    return [r for r in records if not (r.get("event") == "store.writing" and r.get("write_id") in written)]


def last_lines(around: str | None = None, count: int = _LINES) -> LogQuery:
    return LogQuery(around=around, before=count, after=count)


def _moment(at: str = "") -> datetime | None:
    """Parse a time, which is in UTC without a time zone. Raises 422."""
    if not at:
        return None
    try:
        moment = datetime.fromisoformat(at)
        return in_utc(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except ValueError:
        raise HTTPException(422, f"{at[:40]!r} is not a time; write it like 2026-01-31T12:00:00Z") from None


At = Annotated[datetime | None, Depends(_moment)]


@dataclass(frozen=True, kw_only=True)
class LogPlace:
    """The place in a log that a page shows: a write, else a time, else the end."""

    around: WriteId = None
    at: At = None


RequestedPlace = Annotated[LogPlace, Depends()]


@dataclass(frozen=True, kw_only=True)
class _LogPage:
    """The page of a log: whose it is, and what it links to."""

    view: View
    title: str
    above: str | None
    """The page of the watcher or run, if there still is one."""
    has_end: bool
    """Whether the last lines can be shown."""
    api: str
    """The address of the same log in the API."""

    def at(self, place: LogPlace, shown: Sequence[Line]) -> Response:
        """Return the page with the lines at this place."""
        if place.around is not None:
            return self.of_lines(shown, kind="the write", around=place.around)
        moment = None if place.at is None else place.at.isoformat(timespec="seconds").replace("+00:00", "Z")
        return self.of_lines(shown, kind="the time", around=moment)

    def of_lines(self, shown: Sequence[Line], *, kind: str = "", around: str | int | None = None) -> Response:
        """Return the page with these lines, which are the last ones unless they are `around` something of this kind."""
        return self.view.page(
            "log.html",
            title=self.title,
            above=self.above,
            has_end=self.has_end,
            api=self.api,
            kind=kind,
            around=around,
            lines=shown,
        )


@router.get("/watchers/{name}/log")
async def of_watcher(view: Pages, name: str, place: RequestedPlace) -> Response:
    """Show the log of a watcher, also of one that is no longer configured, whose writes still link to it."""
    logs = partial(watcher_logs, view.context.logs_directory, name)
    async with view.context.database.reading() as connection:
        is_configured = await watchers.is_configured(connection, name)
    has_end = is_configured or bool(await anyio.to_thread.run_sync(logs))
    if place == LogPlace() and not has_end:
        raise no_watcher(name)
    page = _LogPage(
        view=view,
        title=name,
        above=path("watchers", name) if is_configured else None,
        has_end=has_end,
        api=path("api", "v2", "watchers", name, "logs"),
    )
    return page.at(place, await _lines_at(view.context, logs, place))


@router.get("/runs/{dag_id}/{run_id}/log/{task_id}/{try_number}")
async def of_try(
    view: Pages,
    dag_id: str,
    run_id: str,
    task_id: str,
    try_number: TryNumber,
    place: RequestedPlace,
    map_index: MapIndex = -1,
    line: Annotated[int | None, Query(ge=1, le=BIGGEST)] = None,
) -> Response:
    """Show the log of a try. `line` counts from 1, as in the reasons of failed runs."""
    instance = TaskInstanceKey(dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=map_index)
    try:
        log, has_end = await log_of_try(view.context, instance, try_number), True
    except NotFound:
        log, has_end = await log_of_try(view.context, instance, try_number, around=place.around), False
    async with view.context.database.reading() as connection:
        is_there = await runs.is_there(connection, dag_id, run_id)
    page = _LogPage(
        view=view,
        title=f"{dag_id}, try {try_number}",
        above=path("runs", dag_id, run_id) if is_there else None,
        has_end=has_end,
        api=api_path(instance, try_number),
    )
    if log.remote is not None and place.around is None:
        return page.of_lines(lines((await log.fragment(0, _REMOTE_LINES)).records))
    if line is not None and place == LogPlace():
        return page.of_lines(await anyio.to_thread.run_sync(_numbered, log.path, line), kind="line", around=line)
    return page.at(place, await _lines_at(view.context, lambda: [[log.path]], place))


def _numbered(path: Path, line: int) -> Sequence[Line]:
    numbered = around_line(path, line, before=_LINES, after=_LINES)
    return [Line(record=record, is_marked=place == line, is_first=place == line) for place, record in numbered]


def api_path(instance: TaskInstanceKey, try_number: int) -> str:
    """Return the API's address of a try's log, below the root."""
    of_run = ("api", "v2", "dags", instance.dag_id, "dagRuns", instance.run_id)
    mapped = None if instance.map_index < 0 else instance.map_index
    return path(*of_run, "taskInstances", instance.task_id, "logs", try_number, map_index=mapped)


async def _lines_at(context: ApiContext, logs: Callable[[], Sequence[Log]], place: LogPlace) -> Sequence[Line]:
    if place.at is None or place.around is not None:
        return lines(await excerpt(context, logs, last_lines(place.around)), place.around)
    earlier, later = await at_moment(context, logs, place.at, last_lines())
    first = [Line(record=record, is_marked=True, is_first=True) for record in later[:1]]
    return [*lines(earlier), *first, *lines(later[1:])]


async def tail(context: ApiContext, log: LogOfTry, count: int) -> Sequence[Line]:
    """Return the last lines of a try, for the page of its run."""
    if log.remote is not None:
        return lines((await log.fragment(0, _REMOTE_LINES)).records[-count:])
    return lines(await excerpt(context, lambda: [[log.path]], last_lines(count=count // 2)))
