"""Every route is requested by every kind of caller. docs/authorization.md lists what is expected, a row for each route."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from sqlalchemy import update

from store.database.schema import api_token, database_now
from store.keys import TryRef
from store.processes import tokens
from tests.service.api.application import SECRET, Api, as_json, claimed, superseded
from watcher.serving import owner_tokens, try_tokens

PAGE: Final = (Path(__file__).parents[3] / "docs/authorization.md").read_text(encoding="utf-8")
ROUTES: Final = dict(re.findall(r"^\| `([A-Z]+ /\S*)` \| ([a-z, ]+) \|$", PAGE, re.MULTILINE))
PEOPLE: Final = ("viewer", "operator", "admin")
BODIES: Final[Mapping[str, Any]] = {
    "PUT /execution/store/asset/by-name/value": {"value": 1},
    "PUT /execution/store/asset/by-uri/value": {"value": 1},
    "POST /execution/store/asset/transaction": {"asset": "orders", "ordinal": 0},
    "PUT /execution/store/ti/{task_instance_id}/{key}": {"value": 1},
    "POST /execution/tries/claim": {"nonce": "n"},
    "POST /execution/tries/progress": {"stages": 1, "tasks": 1, "tasks_done": 1},
    "POST /execution/tries/finish": {"state": "success"},
    "POST /execution/superseded": {"paths": []},
}
"""The statuses of routes after a successful sign-in."""
NAMES: Final = {
    "asset_id": "1",
    "event_id": "1",
    "key": "k",
    "dag_id": "load_orders",
    "run_id": "manual__1",
    "task_id": "load",
    "try_number": "1",
    "name": "landing_files",
    "operation_id": "none",
    "asset_alias_id": "1",
    "map_index": "-1",
    "version_number": "1",
    "token_id": "00000000-0000-0000-0000-000000000000",
}


@dataclass
class Callers:
    """The tokens of people and jobs."""

    people: dict[str, str]
    jobs: dict[str, str]
    task_instance_id: str
    """The request of the job `own`."""


async def callers(api: Api) -> Callers:
    people = {}
    async with api.database.transaction() as connection:
        for role in PEOPLE:
            people[role] = (await tokens.create(connection, role, role)).token
        ended = [await tokens.create(connection, "ended", "admin", expires_in=60) for _ in range(2)]
        people["expired"], people["revoked"] = (token.token for token in ended)
        past = update(api_token).where(api_token.c.id == ended[0].id)
        await connection.execute(past.values(expires_at=database_now()))
        await tokens.revoke(connection, ended[1].id)
    old, own = await superseded(api)
    await own.done("POST", "tries/claim", body={"nonce": "n"})
    other = await claimed(api, "manual__2")
    minute_ago = try_tokens.issue(
        SECRET, TryRef(task_instance_id=own.task_instance_id, try_number=own.number), lifetime=timedelta(seconds=-60)
    )
    forged = try_tokens.issue(
        b"x" * 64, TryRef(task_instance_id=own.task_instance_id, try_number=own.number), lifetime=timedelta(hours=1)
    )
    jobs = {
        "own": own.token,
        "other": other.token,
        "superseded": old.token,
        "expired try": minute_ago,
        "forged": forged,
    }
    return Callers(people, jobs, own.task_instance_id)


async def ask(api: Api, route: str, callers: Callers, token: str | None) -> int:
    api.context.sign_in.failures._of.clear()  # so many failures are not the subject here
    method, path = route.split(" ")
    path = path.format(**NAMES, task_instance_id=callers.task_instance_id)
    sent: dict[str, Any] = as_json(BODIES[route]) if route in BODIES else {}
    if token is not None:
        sent.setdefault("headers", {})["Authorization"] = f"Bearer {token}"
    uri = {"uri": "s3://bucket/orders"} if "by-uri" in path or "by-asset" in path else {}
    query = (
        {"name": "orders", "key": "k", "alias_name": "daily", "dag_id": "load_orders", **uri}
        if path.startswith("/execution/")
        else {"types": "nothing"}  # of the stream: one that is let in would not end
        if path.endswith("/stream")
        else {}
    )
    answer: httpx.Response = await api.client.request(method, path, params=query, **sent)
    return answer.status_code


JOBS: Final = ("own", "other", "superseded")


def expected(need: str, caller: str | None, route: str) -> set[int] | None:
    """Return the statuses in the page's second table. None means any answer except a refusal of the caller."""
    if caller is None or need == "anybody":
        return None if need == "anybody" else {401}
    if need == "owner":  # none of these callers can read the daemon's home
        return {403}
    if "try" not in need:
        may = caller in PEOPLE and PEOPLE.index(caller) >= PEOPLE.index(need)
        return None if may else {403}
    if caller == "superseded" and (need.endswith("writes") or need.startswith("current")):
        return {409}
    may = caller in JOBS and not (caller == "other" and need.startswith("own try"))
    return None if may and "alias" not in route else {403}  # the jobs of this test declare no alias


async def test_every_route_answers_each_caller_as_documented(guarded: Api) -> None:
    known = await callers(guarded)
    everybody = {None: None, **known.people, **known.jobs}
    wrong = []
    for route in sorted(ROUTES, key=lambda route: "finish" in route):
        for caller, token in everybody.items():
            status = await ask(guarded, route, known, token)
            statuses = expected(ROUTES[route], caller, route)
            if status == 500 or (status in {401, 403} if statuses is None else status not in statuses):
                wrong.append(f"{route} by {caller}: {status}, not {statuses or 'an answer'}")
            if caller == "own" and statuses is None and status == 409:
                wrong.append(f"{route} by its own try: {status}")
    assert wrong == []


async def test_the_owner_of_the_home_makes_links(guarded: Api) -> None:
    headers = {"Authorization": f"Bearer {owner_tokens.issue(SECRET, 'cli:ann')}"}
    made = await guarded.client.post("/api/v2/sign-in-links", json={"role": "viewer"}, headers=headers)
    assert made.status_code == 201
    secret = parse_qs(urlsplit(made.json()["url"]).query)["link"][0]
    async with guarded.database.transaction() as connection:
        identity = await tokens.redeem_link(connection, secret)
    assert identity is not None
    assert (identity.subject, identity.role) == ("cli:ann", "viewer")


async def test_every_route_has_a_row_on_the_page(guarded: Api) -> None:
    document = await guarded.get("/openapi.json")
    routes = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    assert routes == ROUTES.keys()


@pytest.mark.parametrize("word", ["viewer", "operator", "admin", "owner", "anybody", "try, reads", "own try, writes"])
def test_the_page_has_rows_for_each_role(word: str) -> None:
    assert word in ROUTES.values()
