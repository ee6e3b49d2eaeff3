"""Thousands of valid and invalid requests that schemathesis generates from the document, single ones and sequences.

No answer is a 5xx or has a status, a type or a shape that the document does not list for its route. A method that the document
does not list is 405 with `Allow`, and whoever sends no token, or a bad one, is refused where the document asks for one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

import anyio
import pytest

from store.processes import tokens
from tests.databases import on_both
from tests.effort import LONG, SEED, effort
from tests.features import TABLES
from tests.service.api.application import Api, adapted, claimed
from tests.service.api.served import served
from watcher.serving.api.context import ApiContext
from watcher.serving.api.sign_in import recent_tokens
from watcher.triggerer.clients import Clients
from watcher.triggerer.control import Control

pytestmark = [on_both, pytest.mark.slow]
CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
)
CONFIGURATION: Final = """
[[operations]]
include-path-regex = "^/execution/"
headers = {{ Authorization = "Bearer {try_token}" }}

[[operations]]
include-path-regex = "^/api/"
headers = {{ Authorization = "Bearer {admin_token}" }}

[[operations]]
include-path-regex = "/logs"
parameters = {{ "query.follow" = false }}

[[operations]]
include-path-regex = "/events/stream"
parameters = {{ "query.types" = "nothing" }}

[[operations]]
include-path-regex = "/wait"
parameters = {{ "path.run_id" = "there is none" }}

[[operations]]
include-path-regex = "^/execution/.*by-name"
parameters = {{ "query.name" = "orders" }}

[[operations]]
include-path-regex = "^/execution/.*by-uri"
parameters = {{ "query.uri" = "s3://bucket/orders" }}

[[operations]]
include-path-regex = "^/execution/store/ti/"
parameters = {{ "path.task_instance_id" = "{task_instance_id}" }}
"""
"""Keep requests about existing things, and skip streams and waiting for a run, which would not end."""


@asynccontextmanager
async def looking(api: Api) -> AsyncIterator[ApiContext]:
    """Return the context of a process that hosts no watcher but can move positions."""
    async with anyio.create_task_group() as tasks:
        clients = Clients({}, tasks)
        control = Control(
            tables=TABLES, database=api.database, hosted={}, clients=clients, poll_timeout=timedelta(seconds=30)
        )
        yield adapted(api.context, control=control, auth="tokens")
        tasks.cancel_scope.cancel()


async def test_no_answer_is_a_server_error_or_undocumented(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run hundreds of cases, or in the long form thousands, which takes minutes."""
    phases = ["examples", "fuzzing", "stateful", *(["coverage"] if LONG else [])]
    own = await claimed(api)
    configuration = tmp_path / "schemathesis.toml"
    async with api.database.transaction() as connection:
        admin = await tokens.create(connection, "root", "admin")
    known = {"task_instance_id": own.task_instance_id, "try_token": own.token, "admin_token": admin.token}
    configuration.write_text(CONFIGURATION.format_map(known))
    monkeypatch.setattr(recent_tokens, "MOST_FAILURES", sys.maxsize)  # each operation is sent bad tokens
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(configuration), "run"]
    options = [
        "--checks",
        ",".join(CHECKS),
        "--phases",
        ",".join(phases),
        "--max-examples",
        str(effort(3, 100)),
        "--seed",
        str(SEED),
        "--no-color",
    ]
    async with looking(api) as context, served(context) as address:
        words = [*command, f"{address}/openapi.json", *options, "--request-timeout", "60"]
        result = await anyio.run_process(words, cwd=tmp_path, check=False)
    output = result.stdout.decode()
    assert result.returncode == 0, output[-20_000:]
    cases = re.search(r"(\d+) generated, (\d+) passed", output)
    assert cases is not None, output[-5_000:]
    assert int(cases[1]) > (1000 if "coverage" in phases else 200)
    assert re.search(r"Tested: (\d+)", output)[1] == re.search(r"Selected: (\d+)", output)[1]  # type: ignore[index]
    assert all(re.search(f"✅ +{phase.title()}", output) for phase in phases)
