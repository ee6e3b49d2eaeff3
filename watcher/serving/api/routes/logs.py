"""Log lines as answers: around a write, the last ones, or live; as ndjson, as text, or as server-sent events.

Airflow's route for the logs of tries is here. `watchers` has the route for the logs of watchers.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final

import anyio
import anyio.to_thread
from fastapi import APIRouter, Depends, Header, Query, Response
from fastapi import Path as PathParameter
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse

from store.errors import NotFound
from store.keys import TaskInstanceKey
from store.runs import runs
from store.runs.tries import task_instances, try_lookup
from store.state import history
from store.state.history import HistoryEntry
from watcher.host.logs import reader, try_log
from watcher.host.logs.reader import LINES, Fragment, Log, Record, as_text, fragment, fragment_of
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.parameters import BIGGEST, MapIndex, Moment
from watcher.serving.api.shapes.base import Shape
from watcher.serving.api.sign_in.auth import Listener, Viewer
from watcher.serving.api.streams.open_streams import MayListen
from watcher.submit.base import Handle, Submitter

router = APIRouter(prefix="/api/v2", tags=["Logs"])
_FIRST_FRAGMENT = 1000
_FULL_CONTENT = 100_000
"""Lines in one answer. The continuation token leads to the rest."""
_PATIENCE: Final = 30.0
_MOST_BYTES: Final = 16_000_000
LINES_OF_LOGS: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Lines, oldest first. With `follow` they are Server-Sent Events, otherwise they have the form that `Accept` requests.",
        "content": {
            kind: {"schema": {"type": "string"}} for kind in ("application/x-ndjson", "text/plain", "text/event-stream")
        },
    }
}
"""The responses of routes that call `answer`."""
Token = Annotated[int, Query(ge=0, le=BIGGEST, description="The continuation token of the preceding fragment.")]
_MOST_LINES: Final = 5000
TryNumber = Annotated[int, PathParameter(ge=0, lt=2**31)]
Lines = Annotated[int, Query(ge=0, le=_MOST_LINES)]
WriteId = Annotated[str | None, Query(pattern="^[A-Za-z0-9_-]{1,64}$")]
At = Annotated[Moment | None, Query(description="Return the lines before this moment, and from it on.")]


class TaskInstancesLogResponse(Shape):
    """The records of a fragment. `continuation_token` requests the next one, and is null at the end."""

    content: Sequence[dict[str, Any]]
    continuation_token: str | None


@dataclass(frozen=True, kw_only=True)
class LogQuery:
    """The lines that are requested: around a write or a moment, or else the last `before` + `after` lines.

    With `following`, the answer continues with new lines.
    """

    around: str | None = None
    at: datetime | None = None
    before: int
    after: int
    following: bool = False

    @property
    def is_of_the_end(self) -> bool:
        return self.around is None and self.at is None


def log_query(
    around: WriteId = None,
    at: At = None,
    before: Lines = LINES,
    after: Lines = LINES,
    following: Annotated[bool, Query(alias="follow")] = False,
) -> LogQuery:
    return LogQuery(around=around, at=at, before=before, after=after, following=following)


LogQueryParameters = Annotated[LogQuery, Depends(log_query)]


@router.get(
    "/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{try_number}",
    responses={200: {**LINES_OF_LOGS[200], "model": TaskInstancesLogResponse}},
)
async def get_log(
    context: Context,
    _: Viewer,
    dag_id: str,
    run_id: str,
    task_id: str,
    try_number: TryNumber,
    query: LogQueryParameters,
    may_listen: Listener,
    map_index: MapIndex = -1,
    full_content: bool = False,
    token: Token = 0,
    accept: Annotated[str, Header()] = "*/*",
) -> Response:
    """Return the log of a try: a fragment from `token` on, or the lines around a write or a moment, or live lines."""
    instance = TaskInstanceKey(dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=map_index)
    log = await log_of_try(context, instance, try_number, around=query.around)
    if query.following or not query.is_of_the_end:
        return await answer(context, str(log.path), lambda: [[log.path]], query, accept, may_listen)
    lines = _FULL_CONTENT if full_content else _FIRST_FRAGMENT
    part = await log.fragment(token, lines)
    following = None if part.next_offset is None else str(part.next_offset)
    if "ndjson" in accept or "text/" in accept:
        response = in_form(part.records, accept)
        response.headers["Airflow-Continuation-Token"] = following or ""
        return response
    return JSONResponse({"content": part.records, "continuation_token": following})


@dataclass(frozen=True, kw_only=True)
class LogOfTry:
    """The log of a try: the daemon's file, and the driver's own log if a submitter keeps that elsewhere."""

    path: Path
    remote: tuple[Submitter, Handle] | None

    async def fragment(self, token: int, lines: int) -> Fragment:
        """Return up to `lines` lines from a continuation token on."""
        if self.remote is None:
            return await anyio.to_thread.run_sync(partial(fragment, self.path, token, lines))
        part = await _remote_fragment(*self.remote, token, lines)
        if token:
            return part
        # The file of such a try has only the daemon's own records.
        own = await anyio.to_thread.run_sync(partial(fragment, self.path, 0, lines))
        return replace(part, records=[*own.records, *part.records])


async def log_of_try(
    context: ApiContext, instance: TaskInstanceKey, try_number: int, *, around: str | None = None
) -> LogOfTry:
    """Return the log of a try, which may have no lines yet. With `around`, a write, the run itself may be gone.

    Raises `NotFound`, `InvalidLogName`.
    """
    path = try_log(context.logs_directory, *instance.columns.values(), try_number)
    async with context.database.reading() as connection:
        # The log of a run outlives the run: after a person deleted it the log itself, after its retention the history.
        if around is None and not await runs.was_deleted(connection, instance.dag_id, instance.run_id):
            await task_instances.check(connection, instance)
        stored = await try_lookup.stored_handle(connection, instance, try_number)
    submitter = None if stored is None else context.jobs.submitters.get(stored[0])
    if stored is None or submitter is None or submitter.ends_with_home:
        return LogOfTry(path=path, remote=None)
    return LogOfTry(path=path, remote=(submitter, json.loads(stored[1])))


async def _remote_fragment(submitter: Submitter, handle: Handle, offset: int, lines: int) -> Fragment:
    """Return a fragment of a log that is kept where the driver runs. If it cannot be read, the fragment is a line that says so."""
    data = b""
    try:
        with anyio.fail_after(_PATIENCE):
            async for chunk in submitter.logs(handle, offset):
                data += chunk
                if data.count(b"\n") > lines or len(data) > _MOST_BYTES:
                    break
    except Exception as error:  # noqa: BLE001  a plug-in's own code may raise anything
        sentence = f"the submitter could not read the driver's log ({type(error).__name__}: {error}); retry later"
        return Fragment(records=[{"event": "log.unreachable", "level": "error", "error": sentence}], next_offset=None)
    return fragment_of(data, offset, lines)


async def answer(
    context: ApiContext,
    name: str,
    logs: Callable[[], Sequence[Log]],
    query: LogQuery,
    accept: str,
    may_listen: MayListen,
) -> Response:
    """Return the requested lines of the log with this name in the requested form. Raise `NotFound` for an unknown write."""
    if query.following:
        context.live.streams.check()
        more = context.live.followers.follow(name, logs, _event, context.live.stopping)
        await anext(more)
        try:
            events = _events(await excerpt(context, logs, query), more)
        except BaseException:
            await more.aclose()
            raise
        return StreamingResponse(
            context.live.streams.commented(events, may_listen),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store"},
        )
    return in_form(await excerpt(context, logs, query), accept)


def in_form(records: Iterable[Record], accept: str) -> Response:
    """Return the records as ndjson, or as text for clients that accept text, as browsers do."""
    if "text/" in accept:
        return PlainTextResponse("".join(f"{as_text(record)}\n" for record in records))
    return Response("".join(f"{_line(record)}\n" for record in records), media_type="application/x-ndjson")


async def excerpt(context: ApiContext, logs: Callable[[], Sequence[Log]], query: LogQuery) -> Sequence[Record]:
    """Return the requested lines. Raise `NotFound` for an unknown write."""
    if query.around is not None:
        return await _around_write(context, logs, query.around, query)
    if query.at is not None:
        return [*chain.from_iterable(await at_moment(context, logs, query.at, query))]
    lines = query.before + query.after
    return await _judged(context, await anyio.to_thread.run_sync(lambda: reader.last(logs(), lines)))


async def at_moment(
    context: ApiContext, logs: Callable[[], Sequence[Log]], moment: datetime, query: LogQuery
) -> tuple[Sequence[Record], Sequence[Record]]:
    """Return the lines before the moment, and those from it on."""
    read = partial(reader.at_moment, moment=moment, before=query.before, after=query.after)
    earlier, later = await anyio.to_thread.run_sync(lambda: read(logs()))
    judged = await _judged(context, [*earlier, *later])
    return judged[: len(earlier)], judged[len(earlier) :]


async def _around_write(
    context: ApiContext, logs: Callable[[], Sequence[Log]], write_id: str, query: LogQuery
) -> Sequence[Record]:
    """Return the lines around a write. The history tells when it was, and replaces its lines if they are gone."""
    async with context.database.reading() as connection:
        rows = await history.of_writes(connection, [write_id])
    near = rows[0].written_at if rows else None
    read = partial(reader.around, write_id=write_id, before=query.before, after=query.after, near=near)
    records = await anyio.to_thread.run_sync(lambda: read(logs()))
    if records is not None:
        return await _judged(context, records)
    if not rows:
        raise NotFound(
            f"neither the logs nor the history contain the write {write_id}; it may be older than what is kept"
        )
    return [_history_record(row) for row in rows]


async def _judged(context: ApiContext, records: Sequence[Record]) -> Sequence[Record]:
    """Mark the writes that were announced and never happened.

    A missing confirmation alone proves nothing: the daemon may have died right after COMMIT, or the line may be outside the
    excerpt. The history decides.
    """
    doubtful = reader.unfinished(records)
    if not doubtful:
        return records
    async with context.database.reading() as connection:
        happened = {row.writer and row.writer.write_id for row in await history.of_writes(connection, doubtful)}
    rolled_back = doubtful - happened
    return [{**record, "rolled_back": True} if record.get("write_id") in rolled_back else record for record in records]


def _history_record(row: HistoryEntry) -> Record:
    values = {**vars(row), **({} if row.writer is None else vars(row.writer)), "writer": None}
    record = {name: value for name, value in values.items() if value is not None}
    return {"timestamp": row.written_at, "event": "store.history", **record}


async def _events(first: Sequence[Record], more: AsyncGenerator[str, None]) -> AsyncIterator[str]:
    """Yield the first records, then the following ones. A text is empty if nothing is new."""
    async with aclosing(more):
        yield "".join(map(_event, first))
        async for text in more:
            yield text


def _event(record: Record) -> str:
    return f"data: {_line(record)}\n\n"


def _line(record: Record) -> str:
    return json.dumps(record, default=_as_json)


def _as_json(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else repr(value)
