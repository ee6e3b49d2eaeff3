"""A job whose sign-in was refused gets its connections as they are now, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.service.api.application import Api, Try, adapted, claimed, serving, superseded
from triggers.errors import SourceUnavailable

SHOP = {"type": "postgres", "host": "db", "password": "second"}


async def connection(dag_id: str, name: str) -> Mapping[str, Any] | None:
    if name == "silent":
        raise SourceUnavailable("the command vault gives no password for the database: it ended with exit code 1")
    return SHOP if (dag_id, name) == ("load_orders", "shop") else None


async def asked(api: Api, one: Try, name: str) -> tuple[int, Any]:
    async with serving(adapted(api.context, connection=connection)) as client:
        answer = await replace(one, client=client).call("GET", f"connections/{name}")
    content = answer.json()
    return answer.status_code, content if answer.is_success else content["detail"]


async def test_a_try_gets_a_connection_of_its_job_with_the_password_of_now(api: Api) -> None:
    one = await claimed(api)
    assert await asked(api, one, "shop") == (200, SHOP)


async def test_other_connections_are_forbidden(api: Api) -> None:
    one = await claimed(api)
    status, detail = await asked(api, one, "till")
    assert (status, detail["reason"]) == (403, "forbidden")
    assert detail["message"] == (
        "the job load_orders has no connection 'till'; add it to its spark.connections and retry the run"
    )


async def test_a_try_that_is_over_gets_none(api: Api) -> None:
    old, new = await superseded(api)
    assert (await asked(api, old, "shop"))[0] == 409
    await new.done("POST", "tries/claim", body={"nonce": "n"})
    await new.done("POST", "tries/finish", body={"state": "success"})
    assert (await asked(api, new, "shop"))[0] == 409


async def test_a_password_that_cannot_be_had_is_said_to_be_the_reason(api: Api) -> None:
    one = await claimed(api)
    status, detail = await asked(api, one, "silent")
    assert (status, detail["reason"]) == (502, "unavailable")
    assert "exit code 1" in detail["message"]
