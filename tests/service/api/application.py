"""The complete application with a real database, used like people, tools and jobs use it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Literal

import httpx
from fastapi import FastAPI
from starlette.datastructures import State

from store.catalog.catalog_sync import Declared, DeclaredAsset, DeclaredJob, DeclaredWatcher
from store.database import Database
from store.keys import JobDefinition, Role, TryRef
from store.processes.tokens import digest
from store.runs import runs
from store.runs.tries import tries, try_lookup
from store.state.attributed import AttributedEntries
from tests.features import HOOKS
from tests.service.api.conformance import Conforming, Document
from tests.service.queued_tasks import queued_task_of
from watcher.configuration.declarations import planners
from watcher.host.loops import Hint
from watcher.installed import Installed, installed
from watcher.serving import try_tokens
from watcher.serving.api import create_app
from watcher.serving.api.context import ApiContext, ProcessState, RequestLimits, SignIn

SECRET = b"a secret of the tests"
DEFINITION = {
    "schedule": {"all": ["landing", {"any": ["customers", {"alias": "daily"}]}]},
    "batch": {"mode": "coalesce", "debounce": 0, "max_wait": 300, "max_events": 1000},
    "max_active_runs": 1,
    "retries": 0,
    "retry_delay": 30,
    "timeout": None,
    "spark": {"application": "jobs/load_orders.py", "master": "local[*]"},
    "options": {"target": "/data/orders"},
}


GROUPS = {"sign_in", "limits", "links", "live", "process", "watchers", "jobs"}


def make_context(
    database: Database,
    logs_directory: Path,
    *,
    hint: Callable[[Hint], None] = lambda _hint: None,
    secret: bytes = SECRET,
    auth: Literal["tokens", "none"] = "none",
    configuration_hash: str | None = None,
) -> ApiContext:
    return ApiContext(
        hooks=HOOKS,
        database=database,
        entries=AttributedEntries(database.dialect),
        logs_directory=logs_directory,
        hint=hint,
        sign_in=SignIn(secrets=[secret], auth=auth),
        limits=RequestLimits(max_value_storage_bytes=65535, default_retention_days=30),
        process=ProcessState(configuration_hash=configuration_hash),
        planners=planners(),
    )


def adapted(context: ApiContext, **values: Any) -> ApiContext:
    """Return the context with other values, each in the group that has a field of this name."""
    for name, value in values.items():
        parts = {each.name: getattr(context, each.name) for each in fields(context)}
        group = next((key for key, part in parts.items() if key in GROUPS and hasattr(part, name)), None)
        changed = {name: value} if group is None else {group: replace(parts[group], **{name: value})}
        context = replace(context, **changed)
    return context


def job(dag_id: str, aliases: Mapping[Role, set[str]] | None = None, **assets: set[str]) -> DeclaredJob:
    return DeclaredJob(
        dag_id=dag_id,
        task_id="load",
        definition=JobDefinition.from_json(json.dumps(DEFINITION)),
        paused=False,
        assets=assets,
        aliases=aliases or {},
    )


def asset(name: str) -> DeclaredAsset:
    return DeclaredAsset(name=name, uri=f"s3://bucket/{name}", group="shop", extra='{"team": "trainees"}')


CONFIGURED = Declared(
    hash="the hash",
    assets=[asset(name) for name in ("landing", "customers", "orders", "private")],
    watchers=[DeclaredWatcher(name="landing_files", asset="landing", trigger="s3.new_files")],
    jobs=[
        job(
            "load_orders",
            schedule={"landing", "customers"},
            inlet={"landing"},
            outlet={"orders"},
        ),
        job("report", schedule={"orders"}),
    ],
)


@dataclass
class Api:
    """A client of the application, with the application's context and database."""

    client: httpx.AsyncClient
    context: ApiContext
    asset_ids: Mapping[str, int]
    wakes: list[Any] = field(default_factory=list)

    @property
    def database(self) -> Database:
        return self.context.database

    def store(self, asset_name: str, key: str | None = None) -> str:
        """Return the path of an asset's store, or of one entry."""
        path = f"/api/v2/assets/{self.asset_ids[asset_name]}/store"
        return path if key is None else f"{path}/{key}"

    async def get(self, path: str, status: int = 200, **query: Any) -> Any:
        answer = await self.client.get(path, params=query or None)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def put(self, asset_name: str, key: str, value: Any, status: int = 204, **more: Any) -> None:
        answer = await self.client.put(self.store(asset_name, key), json={"value": value, **more})
        assert answer.status_code == status, answer.text

    async def start_try(self, run_id: str = "manual__1", dag_id: str = "load_orders") -> Try:
        """Create a run with a committed intent of its next try, and the token for its process."""
        async with self.database.transaction() as session:
            if await queued_task_of(session, run_id) is None:
                await runs.create_run(session, dag_id, run_id, "load", triggered_by="rest_api", conf="{}", note=None)
            task = await queued_task_of(session, run_id)
            assert task is not None
            tag = f"{task.key.task_instance_id}-{task.key.try_number}"
            made = self.as_try(task.key.task_instance_id, task.key.try_number, run_id)
            assert await tries.commit_intent(session, task, home_id="home", tag=tag, token_hash=digest(made.token))
        return made

    def as_try(self, task_instance_id: str, number: int, run_id: str) -> Try:
        token = try_tokens.issue(
            SECRET, TryRef(task_instance_id=task_instance_id, try_number=number), lifetime=timedelta(hours=1)
        )
        return Try(self.client, task_instance_id, number, run_id, token)


@dataclass
class Try:
    """The process of a try, as the Execution API sees it."""

    client: httpx.AsyncClient
    task_instance_id: str
    number: int
    run_id: str
    token: str

    async def call(self, method: str, path: str, *, query: Any = None, body: Any = None) -> httpx.Response:
        sent = {} if body is None else as_json(body)
        headers = {"Authorization": f"Bearer {self.token}", **sent.pop("headers", {})}
        return await self.client.request(method, f"/execution/{path}", params=query, headers=headers, **sent)

    async def done(self, method: str, path: str, *, query: Any = None, body: Any = None) -> Any:
        answer = await self.call(method, path, query=query, body=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    async def put(self, asset_name: str, key: str, value: Any, **more: Any) -> httpx.Response:
        query = {"name": asset_name, "key": key}
        return await self.call("PUT", "store/asset/by-name/value", query=query, body={"value": value, **more})


def as_json(body: Any) -> dict[str, Any]:
    """Return a request's body in ASCII, because httpx cannot send lone surrogates."""
    return {"content": json.dumps(body), "headers": {"Content-Type": "application/json"}}


def serving(context: ApiContext) -> httpx.AsyncClient:
    """Yield a client of an application with this context. Its answers must conform to the document."""
    app = Conforming(application(context), _document())
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")


def application(context: ApiContext, _features: Any = None) -> FastAPI:
    """Return the application with this context. All applications share their routes, which are as slow to make as fifty requests."""
    made = copy(_first(None))
    made.state = State({"context": context})
    return made


def without_pages(context: Any = None) -> FastAPI:
    """Return an application whose features do not include our pages: what the API does by itself."""
    others = [feature for feature in installed().features if feature.name != "pages"]
    return create_app(context, Installed(features=others))


@cache
def _first(context: Any) -> FastAPI:
    return create_app(context)


async def claimed(api: Api, run_id: str = "manual__1") -> Try:
    one = await api.start_try(run_id)
    await one.done("POST", "tries/claim", body={"nonce": "n"})
    return one


async def superseded(api: Api) -> tuple[Try, Try]:
    """Yield a try and the next try of its task instance."""
    old = await claimed(api)
    return old, await next_try(api, old)


async def next_try(api: Api, old: Try) -> Try:
    async with api.database.transaction() as session:
        of_home = await try_lookup.open_tries(session, "home")
        open_try = next(one for one in of_home if one.key.task_instance_id == old.task_instance_id)
        await tries.end(
            session,
            open_try,
            exit_code=1,
            state="up_for_retry",
            run_state="running",
            reason=None,
            warning=None,
            retry_in=0,
        )
    return await api.start_try(old.run_id)


@cache
def _document() -> Document:
    return Document(_first(None).openapi())
