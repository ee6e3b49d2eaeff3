"""Tokens over REST: their lifetime, refused tokens, and tokens for another scheduler's tasks."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import select, update

from store.database.paging import PageRequest
from store.database.schema import api_token, database_now, database_time_in, task_instance
from store.keys import TryRef
from store.processes import audit, cleanup, tokens, triggerers
from store.processes.triggerers import ProcessInfo, SigningKeys
from tests.service.api.application import SECRET, Api, adapted, claimed, serving
from tests.service.api.test_costs import counted
from watcher.serving import try_tokens
from watcher.serving.api.sign_in.recent_tokens import MOST_FAILURES, KnownTokens

PATH = "/api/v2/tokens"


class People:
    """A client that sends requests with a token."""

    def __init__(self, api: Api, token: str) -> None:
        self.api, self.headers = api, {"Authorization": f"Bearer {token}"}

    async def call(self, method: str, path: str, status: int, body: Any = None) -> Any:
        answer = await self.api.client.request(method, path, json=body, headers=self.headers)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None


@pytest.fixture
async def admin(guarded: Api) -> People:
    async with guarded.database.transaction() as connection:
        token = await tokens.create(connection, "root", "admin", name="first")
    return People(guarded, token.token)


async def audited(api: Api, action: str) -> list[tuple[str, str]]:
    async with api.database.reading() as connection:
        page = await audit.listed(connection, None, PageRequest(limit=1000))
    return [(entry.actor, entry.target) for entry in page.rows if entry.action == action]


async def test_a_known_token_needs_no_database_until_this_process_changes_a_token(admin: People, guarded: Api) -> None:
    made = await admin.call("POST", PATH, 201, {"subject": "ann", "role": "viewer"})
    context = adapted(guarded.context, known_tokens=KnownTokens(trusted_for=3600.0))
    async with serving(context) as client:
        here = replace(guarded, client=client, context=context)
        ann, root = People(here, made["token"]), People(here, admin.headers["Authorization"].partition(" ")[2])
        await ann.call("GET", "/api/v2/assets", 200)
        with counted(guarded.database) as cost:
            await ann.call("GET", "/api/v2/assets", 200)
            await ann.call("GET", PATH, 403)
        assert (cost.transactions, any("api_token" in statement for statement in cost.statements)) == (1, False)
        await root.call("DELETE", f"{PATH}/{made['id']}", 204)
        await ann.call("GET", "/api/v2/assets", 403)


async def test_a_token_may_have_the_longest_lifetime(admin: People) -> None:
    await admin.call("POST", PATH, 201, {"subject": "ann", "role": "viewer", "expires_in": tokens.LONGEST_LIFE})


async def test_a_token_is_created_used_and_revoked(admin: People, guarded: Api) -> None:
    made = await admin.call(
        "POST", PATH, 201, {"subject": "ann", "role": "viewer", "name": "laptop", "expires_in": 3600}
    )
    ann = People(guarded, made["token"])
    assert (made["subject"], made["role"], made["name"], made["last_used_at"]) == ("ann", "viewer", "laptop", None)
    await ann.call("GET", "/api/v2/assets", 200)
    await ann.call("GET", PATH, 403)

    listed = await admin.call("GET", PATH, 200)
    assert [(one["subject"], one["name"]) for one in listed["tokens"]] == [("ann", "laptop"), ("root", "first")]
    assert listed["total_entries"] == 2
    assert all(one["last_used_at"] is not None for one in listed["tokens"])
    assert made["token"] not in str(listed)
    assert "token" not in listed["tokens"][0]

    rotated = await admin.call("POST", f"{PATH}/{made['id']}/rotate", 201, {"overlap": 3000})
    assert (rotated["subject"], rotated["role"], rotated["name"]) == ("ann", "viewer", "laptop")
    await ann.call("GET", "/api/v2/assets", 200)
    again = await admin.call("POST", f"{PATH}/{made['id']}/rotate", 201)
    await ann.call("GET", "/api/v2/assets", 403)
    await admin.call("POST", f"{PATH}/{made['id']}/rotate", 404)

    await admin.call("DELETE", f"{PATH}/{rotated['id']}", 204)
    await People(guarded, rotated["token"]).call("GET", "/api/v2/assets", 403)
    await admin.call("DELETE", f"{PATH}/{rotated['id']}", 404)
    async with guarded.database.transaction() as connection:
        this = update(api_token).where(api_token.c.id == again["id"])
        await connection.execute(this.values(expires_at=database_now()))
    await People(guarded, again["token"]).call("GET", "/api/v2/assets", 403)
    await admin.call("POST", f"{PATH}/{again['id']}/rotate", 409)
    assert await audited(guarded, "token.create") == [("root", "ann")]
    assert await audited(guarded, "token.rotate") == [("root", "ann")] * 2
    assert await audited(guarded, "token.revoke") == [("root", "ann")]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"subject": "ann"},
        {"subject": "ann", "role": "root"},
        {"subject": "", "role": "viewer"},
        {"subject": "a\nb", "role": "viewer"},
        {"subject": "a" * 251, "role": "viewer"},
        {"subject": "ann", "role": "viewer", "name": ""},
        {"subject": "ann", "role": "viewer", "expires_in": 0},
        {"subject": "ann", "role": "viewer", "expires_in": 1.5},
        {"subject": "ann", "role": "viewer", "expires_in": True},
        {"subject": "ann", "role": "viewer", "expires_in": 2**63},
        {"subject": "ann", "role": "viewer", "token": "mine"},
    ],
)
async def test_invalid_token_requests_are_refused(admin: People, body: Any) -> None:
    await admin.call("POST", PATH, 422, body)


async def test_failures_are_recorded_and_too_many_make_only_their_client_wait(admin: People, guarded: Api) -> None:
    wrong = People(guarded, "aw_wrong")
    for number in range(MOST_FAILURES):
        path = "/api/v2/assets" if number % 2 else "/execution/store/ti/x"
        await wrong.call("GET", path, 403)
    for path in ("/api/v2/assets", "/execution/store/ti/x", PATH):
        answer = await guarded.client.get(path, headers=wrong.headers)
        assert (answer.status_code, 1 <= int(answer.headers["Retry-After"]) <= 60) == (429, True)
    refused = await guarded.client.post(PATH, headers=wrong.headers, json={"subject": "x", "role": "admin"})
    assert refused.status_code == 429
    await admin.call("GET", "/api/v2/assets", 200)
    assert (await guarded.client.get("/api/v2/assets")).status_code == 401
    elsewhere = httpx.ASGITransport(guarded.client._transport.app, client=("192.0.2.1", 1))  # type: ignore[attr-defined]
    async with httpx.AsyncClient(transport=elsewhere, base_url="http://localhost") as client:
        assert (await client.get("/api/v2/assets", headers=wrong.headers)).status_code == 403
    assert await audited(guarded, "sign_in.failed") == [
        ("unknown", "192.0.2.1"),
        *[("unknown", "127.0.0.1")] * MOST_FAILURES,
    ]
    counted = f"watcher_sign_in_failures_total {MOST_FAILURES + 5}.0"
    assert counted in (await guarded.client.get("/metrics")).text


async def test_a_body_is_read_only_after_signing_in(guarded: Api) -> None:
    for path in (PATH, "/execution/tries/claim"):
        for body in (b"nonsense", b"{}", b" " * 500_000):
            headers = {"Content-Type": "application/json"}
            assert (await guarded.client.post(path, content=body, headers=headers)).status_code == 401
            answer = await guarded.client.post(path, content=body, headers={**headers, "Authorization": "Bearer x"})
            assert answer.status_code == 403
    assert (await guarded.client.post(PATH, content=b" " * 1_100_000)).status_code == 413


async def test_tokens_of_an_older_secret_are_valid_until_they_expire(guarded: Api) -> None:
    one = await claimed(guarded)
    new = adapted(guarded.context, secrets=[b"n" * 32, SECRET])
    async with serving(new) as client:
        one.client = client
        assert (await one.put("orders", "k", 1)).status_code == 204
        renewed = (await one.done("POST", "tries/token"))["token"]
    async with serving(adapted(new, secrets=[b"n" * 32])) as client:
        one.client = client
        assert (await one.put("orders", "k", 2)).status_code == 403
        one.token = renewed
        assert (await one.put("orders", "k", 3)).status_code == 204


async def test_processes_with_other_secrets_are_not_ready_and_name_the_process(guarded: Api) -> None:
    here, there = ProcessInfo(id="1", host="here", pid=1), ProcessInfo(id="2", host="there", pid=2)
    ours = SigningKeys.of([b"new", b"old"], here)
    for others, status in (([b"new", b"old"], 200), ([b"new"], 503), ([b"old", b"new"], 503), ([b"other"], 503)):
        async with guarded.database.transaction() as connection:
            await triggerers.publish_keys(connection, SigningKeys.of(others, there), guarded.database.dialect)
        async with serving(adapted(guarded.context, signing_keys=ours)) as client:
            answer = await client.get("/readyz")
        assert answer.status_code == status
        reasons = answer.json()["reasons"]
        assert (
            not reasons
            if status == 200
            else "the process 2 on there signs jobs' tokens with another list" in reasons[0]
        )


FOREIGN = {"dag_id": "theirs", "run_id": "manual__2026-01-01T00:00:00+00:00", "task_id": "load"}


class Foreign:
    """A task of another scheduler."""

    def __init__(self, api: Api, token: str) -> None:
        self.api, self.headers = api, {"Authorization": f"Bearer {token}"}

    async def call(self, method: str, path: str, status: int, **sent: Any) -> Any:
        answer = await self.api.client.request(method, f"/execution/{path}", headers=self.headers, **sent)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def put(self, name: str, status: int, value: Any = 1) -> None:
        query = {"name": name, "key": "k"}
        await self.call("PUT", "store/asset/by-name/value", status, params=query, json={"value": value})


async def test_a_task_of_another_scheduler_writes_under_its_own_ids(admin: People, guarded: Api) -> None:
    path = "/api/v2/execution-tokens"
    made = await admin.call("POST", path, 201, {**FOREIGN, "assets": ["orders"], "expires_in": 600})
    task = Foreign(guarded, made["token"])
    expires_in = datetime.fromisoformat(made["expires_at"]) - datetime.now().astimezone()
    assert timedelta(minutes=9) < expires_in <= timedelta(minutes=10)

    await task.put("orders", 204, {"rows": 1})
    await task.put("landing", 403)
    entry = await admin.call("GET", f"/api/v2/assets/{guarded.asset_ids['orders']}/store/k", 200)
    writer = entry["last_updated_by"]
    assert {**FOREIGN, "kind": "task", "map_index": -1}.items() <= writer.items()
    lines = await guarded.client.get(writer["log_url"], headers=admin.headers)
    assert "store.written" in lines.text

    query = {"name": "orders", "key": "k"}
    assert await task.call("GET", "store/asset/by-name/value", 200, params=query) == {"value": {"rows": 1}}
    await task.call("GET", "store/asset/by-name/value", 403, params={**query, "name": "landing"})
    changes = {"asset": "orders", "ordinal": 0, "increment": {"n": 2}}
    changed = await task.call("POST", "store/asset/transaction", 200, json=changes)
    assert changed["values"] == {"n": 2}
    own = f"store/ti/{made['task_instance_id']}"
    await task.call("PUT", f"{own}/k", 204, json={"value": 1})
    assert await task.call("GET", f"{own}/k", 200) == {"value": 1}
    for what, body in (("claim", {"nonce": "n"}), ("finish", {"state": "success"}), ("token", None)):
        refusal = await task.call("POST", f"tries/{what}", 403, json=body)
        assert "has no try here" in refusal["detail"]["message"]

    again = await admin.call("POST", path, 201, {**FOREIGN, "assets": ["landing"], "expires_in": 60})
    assert again["task_instance_id"] == made["task_instance_id"]
    await Foreign(guarded, again["token"]).put("landing", 204)
    await Foreign(guarded, again["token"]).put("orders", 403)
    await task.put("orders", 204)
    assert await audited(guarded, "execution_token.create") == [("root", "theirs")] * 2
    async with guarded.database.reading() as connection:
        t = task_instance.c
        row = (await connection.execute(select(t.origin, t.state, t.end_date))).one()
    assert (row.origin, row.state) == ("foreign", "running")
    assert abs(row.end_date - datetime.fromisoformat(made["expires_at"])) < timedelta(minutes=1)


async def test_the_token_expires_and_the_clean_up_deletes_its_row(admin: People, guarded: Api) -> None:
    made = await admin.call("POST", "/api/v2/execution-tokens", 201, {**FOREIGN, "assets": ["orders"]})
    old = try_tokens.issue(
        SECRET,
        TryRef(task_instance_id=made["task_instance_id"], try_number=0),
        lifetime=timedelta(seconds=-60),
        assets={1},
    )
    await Foreign(guarded, old).put("orders", 403)
    late = try_tokens.issue(
        SECRET,
        TryRef(task_instance_id=made["task_instance_id"], try_number=0),
        lifetime=timedelta(seconds=20),
        assets={1},
    )
    answer = await guarded.client.get(
        f"/execution/store/ti/{made['task_instance_id']}", headers={"Authorization": f"Bearer {late}"}
    )
    assert "Refreshed-API-Token" not in answer.headers
    async with guarded.database.transaction() as connection:
        await connection.execute(update(task_instance).values(end_date=database_time_in(-91 * 86_400.0)))
        [sweep] = [
            cleanup._old_foreign_tasks("foreign tasks", task_instance, datetime.now().astimezone() - timedelta(days=90))
        ]
        assert (await sweep.remove(connection, 10, None, guarded.database.dialect)).rows == 1


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"dag_id": "load_orders"}, 409),
        ({"assets": ["nowhere"]}, 404),
        ({"assets": []}, 422),
        ({"dag_id": "a/b"}, 422),
        ({"run_id": "../x"}, 422),
        ({"map_index": -2}, 422),
        ({"expires_in": 0}, 422),
        ({"try_number": 1}, 422),
    ],
)
async def test_invalid_execution_token_requests_are_refused(admin: People, more: Any, status: int) -> None:
    await admin.call("POST", "/api/v2/execution-tokens", status, {**FOREIGN, "assets": ["orders"], **more})
