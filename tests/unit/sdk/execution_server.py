"""The daemon's Execution API on a socket, for tests of the SDK: it runs in a thread, and tests plan faults in front of it."""

from __future__ import annotations

import base64
import json
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import anyio
from anyio.abc import TaskStatus
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import FastAPI
from sqlalchemy import insert, select, update

from store.catalog import aliases, catalog_sync
from store.catalog.catalog_sync import Declared, DeclaredAsset, DeclaredJob
from store.database import Database
from store.database.schema import asset_alias, asset_event, run, run_asset_event
from store.keys import JobDefinition, Role, TryRef
from store.runs.tries import tries, try_lookup
from tests.databases import copied, migrated_file
from tests.effort import PATIENCE
from tests.service.api.application import (
    DEFINITION,
    SECRET,
    Api,
    Try,
    adapted,
    application,
    make_context,
    next_try,
    serving,
)
from watcher.serving import try_tokens
from watcher.serving.http_server import listen, serve

ORDERS = {"name": "orders", "uri": "file:///data/orders"}
LANDING = {"name": "landing", "uri": "s3://landing/orders"}
ALIAS = {"alias": "daily_outputs"}
Answer = tuple[int, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def token(name: str, life: float = 3600) -> str:
    """A token with the payload of a JWT, which is all that the SDK reads."""
    payload = base64.urlsafe_b64encode(json.dumps({"iat": 1000, "exp": 1000 + life, "name": name}).encode())
    return f"header.{payload.decode().rstrip('=')}.signature"


def refused(status: int, reason: str, message: str) -> Answer:
    return status, {"detail": {"reason": reason, "message": message}}


def event(number: int, asset: str, timestamp: str, **extra: Any) -> dict[str, Any]:
    return {
        "id": number,
        "timestamp": timestamp,
        "extra": extra or None,
        "asset": {"name": asset, "uri": f"file:///data/{asset}", "group": "", "extra": {}},
        "created_dagruns": [],
        "source_task_id": None,
        "source_dag_id": None,
        "source_run_id": None,
        "source_map_index": -1,
        "source_watcher": f"{asset}_files",
    }


@dataclass(frozen=True, kw_only=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass(kw_only=True)
class Wire:
    """ASGI middleware that records requests and produces the faults that a test plans."""

    application: FastAPI
    requests: list[Request] = field(default_factory=list)
    answered: list[Request] = field(default_factory=list)
    """The requests that took effect."""
    faults: list[int] = field(default_factory=list)
    """The faults of the next requests: a status to respond with, or 0 to do the work and then cut the connection."""
    refusals: dict[str, Answer] = field(default_factory=dict)
    """The responses to requests whose path begins with the key."""
    refreshed_token: str | None = None
    tag_form: str = '"{}"'
    """The form in which ETags arrive; empty: there are none."""
    tokens_given: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        request = Request(
            method=scope["method"],
            path=scope["path"].removeprefix("/execution/"),
            query={name: values[0] for name, values in parse_qs(scope["query_string"].decode()).items()},
            headers={name.decode(): value.decode() for name, value in scope["headers"]},
            body=json.loads(body) if body else None,
        )
        self.requests.append(request)
        fault = self.faults.pop(0) if self.faults else None
        refusals = [answer for start, answer in self.refusals.items() if request.path.startswith(start)]
        if fault or refusals:
            await _send(send, *((fault, {}) if fault else refusals[0]))
        else:
            await self._pass(scope, request, body, _cut(send) if fault == 0 else send)

    async def _pass(self, scope: MutableMapping[str, Any], request: Request, body: bytes, send: Send) -> None:
        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": body}

        async def changed(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                if message["status"] < 300:
                    self.answered.append(request)
                message["headers"] = [*self._headers(message["headers"])]
            await send(message)
            if request.path == "tries/token" and message["type"] == "http.response.body":
                self.tokens_given.release()

        await self.application(scope, receive, changed)

    def _headers(self, headers: list[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        for name, value in headers:
            if name != b"etag":
                yield name, value
            elif self.tag_form:
                yield name, self.tag_form.format(value.decode().strip('"')).encode()
        if self.refreshed_token:
            yield b"refreshed-api-token", self.refreshed_token.encode()


async def _send(send: Send, status: int, content: Any) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(content).encode()})


def _cut(send: Send) -> Send:
    """Begin a response and do not end it, so that the server closes the connection."""

    async def begin(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            await send({**message, "status": 200, "headers": [(b"content-length", b"10")]})

    return begin


class ExecutionServer(Wire):
    """The server. Tests set `claim` before they get a `context`, read what was requested and stored, and plan faults."""

    def __init__(self, portal: BlockingPortal, api: Api, url: str) -> None:
        super().__init__(application=application(api.context))
        self.portal, self.api, self.url = portal, api, url
        self.claim: dict[str, Any] = {}
        """The content of claims: inlets, outlets, triggering_asset_events, worker_backend, clear_on_success, options, and `asked`."""
        self.connections: dict[str, dict[str, Any]] = {}
        """The connections of the job, as they are now."""
        self.past_events: dict[str, list[dict[str, Any]]] = {}
        """Events by the name of the asset or alias."""
        self.resolved: list[dict[str, str]] = []
        """The assets to which the job's alias has resolved."""
        self.current: Try | None = None
        self._is_over = False
        self._assets: dict[str, str] = {}
        self._somebody: Try | None = None

    def context(self, **more: Any) -> dict[str, Any]:
        """The context of the current try, or of the next try after `again`."""
        self.portal.call(self._prepare)
        return {
            "api": self.url,
            "token": self.token(),
            "task_instance_id": self.task_instance_id,
            "connections": {},
            **more,
        }

    @property
    def task_instance_id(self) -> str:
        assert self.current is not None
        return self.current.task_instance_id

    def token(self, life: timedelta = timedelta(hours=1)) -> str:
        """Another token of the current try."""
        assert self.current is not None
        return try_tokens.issue(
            SECRET,
            TryRef(task_instance_id=self.current.task_instance_id, try_number=self.current.number),
            lifetime=life,
        )

    def again(self) -> None:
        """Make the next context that of a new try: of the same run after a failure, otherwise of the next run."""
        self._is_over = True

    def supersede(self) -> None:
        """Give up the home of the current try, so that the run is tried elsewhere."""
        self.again()
        self.portal.call(self._prepare)

    def claim_elsewhere(self) -> None:
        assert self.current is not None
        self.portal.call(partial(self.current.done, "POST", "tries/claim", body={"nonce": "another process"}))

    @property
    def finished(self) -> list[dict[str, Any]]:
        return [request.body for request in self.answered if request.path == "tries/finish"]

    @property
    def progress(self) -> list[dict[str, Any]]:
        return [request.body for request in self.answered if request.path == "tries/progress"]

    @property
    def entries(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The entries of all assets, by asset and key."""
        return {
            (name, entry["key"]): _brief(entry)
            for name, asset_id in self.api.asset_ids.items()
            for entry in self._get(f"assets/{asset_id}/store", limit=100)["asset_store"]
        }

    @property
    def task_entries(self) -> dict[str, dict[str, Any]]:
        assert self.current is not None
        path = f"dags/load_orders/dagRuns/{self.current.run_id}/taskInstances/load/state-store"
        found = self._get(path, limit=100)["task_state_store"]
        return {entry["key"]: {**_brief(entry), "expires_at": entry["expires_at"]} for entry in found}

    def put(self, place: tuple[str, str], body: dict[str, Any]) -> None:
        """Write an asset's entry as another job does."""
        self.portal.call(self._put, place, body)

    def _get(self, path: str, **query: Any) -> Any:
        return self.portal.call(partial(self.api.get, f"/api/v2/{path}", **query))

    async def _put(self, place: tuple[str, str], body: dict[str, Any]) -> None:
        await self._declare()
        if self._somebody is None:
            self._somebody = await self.api.start_try("another__1", "another_job")
            await self._somebody.done("POST", "tries/claim", body={"nonce": "another job"})
        await self._somebody.done(
            "PUT", "store/asset/by-name/value", query={"name": place[0], "key": place[1]}, body=body
        )

    async def _prepare(self) -> None:
        await self._declare()
        if self.current is None:
            self.current = await self.api.start_try("manual__1")
            await self._tell_events()
            await self._tell_what_was_asked()
        elif self._is_over and self.finished and self.finished[-1]["state"] != "failed":
            async with self.api.database.transaction() as connection:
                [open_try] = [
                    one for one in await try_lookup.open_tries(connection, "home") if one.key.dag_id == "load_orders"
                ]
                await tries.end(
                    connection,
                    open_try,
                    exit_code=0,
                    state="success",
                    run_state="success",
                    reason=None,
                    warning=None,
                    retry_in=None,
                )
            number = int(self.current.run_id.removeprefix("manual__")) + 1
            self.current = await self.api.start_try(f"manual__{number}")
            await self._tell_events()
        elif self._is_over:
            self.current = await next_try(self.api, self.current)
        self._is_over = False

    async def _declare(self) -> None:
        declared: dict[Role, Any] = {"inlet": self.claim.get("inlets", []), "outlet": self.claim.get("outlets", [])}
        told = [*self.claim.get("triggering_asset_events", {}).values(), *self.past_events.values()]
        known = [one for role in declared.values() for one in role if "name" in one] + self.resolved
        for asset in [*known, *(one["asset"] for events in told for one in events)]:
            self._assets.setdefault(asset["name"], asset["uri"])
        names = {role: {one["name"] for one in found if "name" in one} for role, found in declared.items()}
        through = {role: {one["alias"] for one in found if "alias" in one} for role, found in declared.items()}
        definition = JobDefinition.from_json(json.dumps({**DEFINITION, "options": self.claim.get("options", {})}))
        common: dict[str, Any] = {"task_id": "load", "definition": definition, "paused": False}
        mine = DeclaredJob(dag_id="load_orders", assets=names, aliases=through, **common)
        others = DeclaredJob(dag_id="another_job", assets={"outlet": set(self._assets)}, **common)
        wanted = Declared(
            hash="",
            assets=[DeclaredAsset(name=name, uri=uri, group="", extra="{}") for name, uri in self._assets.items()],
            watchers=[],
            jobs=[mine, others],
            aliases=dict.fromkeys(through["inlet"] | through["outlet"], ""),
        )
        database = self.api.database
        async with database.transaction() as connection:
            self.api.asset_ids = (await catalog_sync.apply(connection, wanted, database.dialect)).asset_ids
            alias_ids = (await connection.execute(select(asset_alias.c.id))).scalars().all()
            resolved = [self.api.asset_ids[asset["name"]] for asset in self.resolved]
            pairs = [(asset_id, alias_id) for asset_id in resolved for alias_id in alias_ids]
            await aliases.associate(connection, pairs, database.dialect)
        self.application.state.context = adapted(
            self.api.context,
            worker_backend=self.claim.get("worker_backend"),
            clear_on_success=self.claim.get("clear_on_success", False),
            connection=self._connection,
        )

    async def _connection(self, _dag_id: str, name: str) -> dict[str, Any] | None:
        return self.connections.get(name)

    async def _tell_what_was_asked(self) -> None:
        asked = {"conf": {}, **self.claim.get("asked", {})}
        conf, key = json.dumps(asked.pop("conf")), asked.pop("partition_key", None)
        said = json.dumps(
            {name: asked.pop(name) for name in ("partition_complete", "late", "redelivered") if name in asked}
        )
        times = {name: datetime.fromisoformat(text) for name, text in asked.items()}
        async with self.api.database.transaction() as connection:
            await connection.execute(update(run).values(conf=conf, partition_key=key, of_feature=said, **times))

    async def _tell_events(self) -> None:
        assert self.current is not None
        async with self.api.database.transaction() as connection:
            names = select(asset_alias.c.name, asset_alias.c.id)
            alias_ids = dict((await connection.execute(names)).all())
            taken = set((await connection.execute(select(asset_event.c.id))).scalars())

            async def tell(one: dict[str, Any]) -> int:
                row = {
                    "asset_id": self.api.asset_ids[one["asset"]["name"]],
                    "extra": json.dumps(one["extra"] or {}),
                    "timestamp": datetime.fromisoformat(one["timestamp"]),
                    "trace_id": "t",
                    "source_watcher": one["source_watcher"],
                    "partition_key": one.get("partition_key"),
                    **({} if one["id"] in taken else {"id": one["id"]}),
                }
                made = await connection.execute(insert(asset_event).values(row).returning(asset_event.c.id))
                taken.add(number := int(made.scalar_one()))
                return number

            for events in self.claim.get("triggering_asset_events", {}).values():
                for one in events:
                    edge = {"dag_id": "load_orders", "run_id": self.current.run_id, "event_id": await tell(one)}
                    await connection.execute(insert(run_asset_event).values(edge))
            for name, events in self.past_events.items():
                for one in events:
                    number = await tell(one)
                    if name in alias_ids:
                        await aliases.remember(connection, [(number, alias_ids[name])])


def _brief(entry: dict[str, Any]) -> dict[str, Any]:
    return {"value": entry["value"], **({"is_ref": True} if entry.get("is_ref") else {})}


async def _serve(portal: BlockingPortal, url: str, folder: Path, *, task_status: TaskStatus[ExecutionServer]) -> None:
    async with Database.open(url) as database, anyio.create_task_group() as tasks:
        context = make_context(database, folder)
        async with serving(context) as client:
            with listen("127.0.0.1", 0) as bound:
                server = ExecutionServer(portal, Api(client, context, {}), f"http://127.0.0.1:{bound.getsockname()[1]}")
                await tasks.start(partial(serve, server, bound))  # type: ignore[arg-type]  # any ASGI application does
                task_status.started(server)
                await anyio.sleep_forever()


@contextmanager
def running_execution_server(template: Path | None = None) -> Iterator[ExecutionServer]:
    """A running server. `template` is a migrated database file, which saves time for many servers."""
    with tempfile.TemporaryDirectory() as name, start_blocking_portal() as portal:
        folder = Path(name)
        url = copied(template or portal.call(anyio.to_thread.run_sync, migrated_file, folder), folder)
        running, server = portal.start_task(partial(_serve, portal, url, folder))
        try:
            yield server
        finally:
            running.cancel()


async def supersede_when_asked(daemon: ExecutionServer, folder: Path) -> None:
    """Supersede the job's try when the job requests that by a file `superseded?`, and confirm it by a file `superseded`."""
    with anyio.fail_after(PATIENCE):
        while not (folder / "superseded?").exists() and not daemon.finished:
            await anyio.sleep(0.05)
    daemon.refusals["tries/token"] = refused(409, "fenced", "The try is superseded.")
    (folder / "superseded").touch()
