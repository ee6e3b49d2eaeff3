"""Signing in with a browser: a token is exchanged for a cookie, which only our pages can use until it or its token expires."""

from __future__ import annotations

from copy import copy
from functools import cache
from typing import Any, Final

import anyio
import anyio.lowlevel
import httpx
import pytest
from fastapi import FastAPI, Request, Response
from sqlalchemy import func, select, update
from starlette.datastructures import State

from store.database.paging import PageRequest
from store.database.schema import api_session, api_token, database_now
from store.processes import audit, tokens
from store.processes.tokens import CreatedToken
from tests.databases import on_both
from tests.effort import PATIENCE
from tests.service.api.application import Api, adapted, without_pages
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.sign_in.recent_tokens import MOST_FAILURES
from watcher.serving.api.sign_in.same_site import Site
from watcher.serving.api.sign_in.sign_ins import begin_session, end_session
from watcher.serving.api.streams.open_streams import Streams

pytestmark = on_both
ASSETS: Final = "/api/v2/assets"


@cache
def pages(context: Any) -> FastAPI:
    """The application without our pages, with a route to sign in and one to sign out that read a bare token."""
    app = without_pages(context)

    @app.post("/sign-in", status_code=204)
    async def sign_in(request: Request, context: Context, response: Response) -> None:
        response.headers["Set-Cookie"] = await begin_session(request, context, (await request.body()).decode())

    @app.post("/sign-out", status_code=204)
    async def sign_out(request: Request, context: Context, response: Response) -> None:
        response.headers["Set-Cookie"] = await end_session(request, context)

    return app


def browser(context: ApiContext, base_url: str = "http://localhost") -> httpx.AsyncClient:
    app = copy(pages(None))
    app.state = State({"context": context})
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base_url, headers={"Origin": base_url})


@pytest.fixture
async def token(guarded: Api) -> CreatedToken:
    async with guarded.database.transaction() as connection:
        return await tokens.create(connection, "ann", "operator")


async def sign_in(client: httpx.AsyncClient, token: CreatedToken) -> str:
    answer = await client.post("/sign-in", content=token.token)
    assert answer.status_code == 204, answer.text
    return answer.headers["set-cookie"]


async def status(client: httpx.AsyncClient, method: str, path: str, **sent: Any) -> int:
    return (await client.request(method, path, **sent)).status_code


async def test_a_session_acts_as_the_subject_of_its_token_until_it_is_signed_out(
    guarded: Api, token: CreatedToken
) -> None:
    async with browser(guarded.context) as ann:
        assert await status(ann, "GET", ASSETS) == 401
        cookie = await sign_in(ann, token)
        assert cookie.split("=")[0] == "watcher"
        assert cookie.split("; ")[1:] == ["Max-Age=28800", "Path=/", "HttpOnly", "SameSite=Lax"]
        assert await status(ann, "GET", ASSETS) == 200
        assert await status(ann, "POST", f"{ASSETS}/events", json={"asset_id": guarded.asset_ids["orders"]}) == 200
        assert await status(ann, "PUT", guarded.store("orders", "k"), json={"value": 1}) == 403
        kept = dict(ann.cookies)
        assert await status(ann, "POST", "/sign-out") == 204
        assert not ann.cookies
        ann.cookies.update(kept)
        gone = await ann.get(ASSETS)
        assert (gone.status_code, gone.json()["detail"]) == (401, "the session has ended; sign in again")
    async with guarded.database.reading() as connection:
        entries = (await audit.listed(connection, None, PageRequest(limit=10))).rows
    assert [(entry.actor, entry.action) for entry in entries] == [
        ("ann", "session.end"),
        ("ann", "asset_event.create"),
        ("ann", "session.begin"),
    ]
    assert token.token not in str(entries)


async def test_a_session_ends_with_its_token_with_time_and_with_the_next_one_of_its_browser(
    guarded: Api, token: CreatedToken
) -> None:
    async with browser(guarded.context) as ann:
        await sign_in(ann, token)
        first = dict(ann.cookies)
        await sign_in(ann, token)
        assert dict(ann.cookies) != first
        assert await status(ann, "GET", ASSETS) == 200
        ann.cookies.update(first)
        assert await status(ann, "GET", ASSETS) == 401

        await sign_in(ann, token)
        async with guarded.database.transaction() as connection:
            await connection.execute(update(api_session).values(expires_at=database_now()))
        assert await status(ann, "GET", ASSETS) == 401

        await sign_in(ann, token)
        async with guarded.database.transaction() as connection:
            assert (await connection.execute(select(func.count()).select_from(api_session))).scalar_one() == 1
            await tokens.revoke(connection, token.id)
        assert await status(ann, "GET", ASSETS) == 401


async def test_a_stream_ends_with_its_session(guarded: Api, token: CreatedToken) -> None:
    context = adapted(guarded.context, streams=Streams(ask_every=0))
    async with browser(context) as ann, browser(context) as other, anyio.create_task_group() as tasks:
        await sign_in(ann, token)
        other.cookies.update(ann.cookies)
        with anyio.fail_after(PATIENCE):
            tasks.start_soon(ann.get, "/api/v2/events/stream")
            while not context.live.changes._listeners:
                await anyio.lowlevel.checkpoint()
            assert await status(other, "POST", "/sign-out") == 204
            while context.live.changes._listeners:
                await anyio.lowlevel.checkpoint()


async def test_a_token_that_has_expired_ends_its_sessions(guarded: Api, token: CreatedToken) -> None:
    async with browser(guarded.context) as ann:
        await sign_in(ann, token)
        async with guarded.database.transaction() as connection:
            await connection.execute(update(api_token).values(expires_at=database_now()))
        assert await status(ann, "GET", ASSETS) == 401
        assert await status(ann, "POST", "/sign-in", content=token.token) == 403


async def test_a_page_of_another_site_can_neither_act_nor_sign_anybody_in(guarded: Api, token: CreatedToken) -> None:
    event = {"asset_id": guarded.asset_ids["orders"]}
    async with browser(guarded.context) as ann:
        await sign_in(ann, token)
        for foreign in ({"Origin": "http://evil.example"}, {"Origin": "http://localhost:3000"}, {"Origin": "null"}):
            assert await status(ann, "POST", f"{ASSETS}/events", json=event, headers=foreign) == 403
            assert await status(ann, "POST", "/sign-in", content=token.token, headers=foreign) == 403
        rebound = {"Host": "evil.example"}
        assert await status(ann, "POST", "/sign-in", content=token.token, headers=rebound) == 421
        ann.cookies.clear()
        for name in ("__Host-watcher", "mywatcher", "watcherer"):
            assert await status(ann, "GET", ASSETS, headers={"Cookie": f"{name}=x"}) == 401


async def test_outside_the_loopback_the_cookie_requires_https(guarded: Api, token: CreatedToken) -> None:
    site = Site(hosts=frozenset({"watcher.example"}), base_url="https://watcher.example")
    context = adapted(guarded.context, site=site)
    async with browser(context, "https://watcher.example") as ann:
        cookie = await sign_in(ann, token)
        assert (cookie.split("=")[0], cookie.split("; ")[-1]) == ("__Host-watcher", "Secure")
        assert await status(ann, "GET", ASSETS) == 200
        assert await status(ann, "POST", "/sign-out") == 204
        assert await status(ann, "GET", ASSETS) == 401
    async with browser(context, "http://watcher.example") as ann:
        answer = await ann.post("/sign-in", content=token.token)
        assert (answer.status_code, "https" in answer.json()["detail"]) == (403, True)


async def test_refused_tokens_on_the_sign_in_page_count_as_failures(guarded: Api, token: CreatedToken) -> None:
    async with browser(guarded.context) as mallory:
        statuses = [await status(mallory, "POST", "/sign-in", content=f"aw_{n}") for n in range(MOST_FAILURES + 1)]
        assert statuses == [403] * MOST_FAILURES + [429]
        assert await status(mallory, "POST", "/sign-in", content=token.token) == 204
