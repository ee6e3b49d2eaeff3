"""examples/feature, installed beside the daemon: its table, section, service, route and command, and no file of the product knows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from anyio.to_thread import run_sync

from tests.effort import PATIENCE
from tests.elsewhere import EXAMPLE, add_feature, install_example
from tests.pages import ROOT
from tests.receivers import web_hook
from watcher.features.demo.daemon import running_daemon
from watcher.serving.api.sign_in.same_site import SESSION_COOKIE
from watcher.shared.servers import free_port

pytestmark = [pytest.mark.slow, pytest.mark.feature("commands", "folder", "problems", "rest")]
BEATS = "/api/v2/x/heartbeat/beats"


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_example(tmp_path_factory.mktemp("example"))


def configured(folder: Path, port: int) -> Path:
    """Return the example's configuration in a folder of its own, with a heartbeat that a test sees often."""
    (folder / "inbox").mkdir()
    text = (EXAMPLE / "watchers.yaml").read_text(encoding="utf-8").replace("every: 1m", "every: 100ms")
    file = folder / "watchers.yaml"
    file.write_text(text.replace("settings:\n", f"settings:\n  api: {{port: {port}}}\n"))
    return file


def ran(file: Path, environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "watcher", *words, "-c", str(file)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


async def test_it_works_beside_the_daemon_and_is_left_alone_without(example: Path, tmp_path: Path) -> None:
    port = free_port()
    file = configured(tmp_path, port)
    with web_hook() as switch:
        switch.statuses[:] = [500]
        environment = {**os.environ, "PYTHONPATH": str(example), "HEARTBEAT_URL": switch.url}
        assert "is right" in ran(file, environment, "check").stdout
        async with (
            running_daemon(file, f"http://127.0.0.1:{port}", environment) as daemon,
            httpx.AsyncClient(base_url=daemon.url) as client,
        ):
            with anyio.fail_after(PATIENCE):
                while len(switch.bodies) < 3:
                    await anyio.sleep(0.05)
            assert switch.bodies[0] == {"state": "leading"}
            beats = json.loads(await daemon.said("heartbeat", "beats", "--json"))["beats"]
            assert beats[0]["failure"] is None
            assert "500" in (await _all_beats(daemon))[-1]["failure"]
            assert "failure" in await daemon.said("heartbeat", "beats")
            token = await daemon.said("token", "create", "--subject", "reader", "--role", "viewer")
            signed = {"Authorization": f"Bearer {token.split()[-1]}"}
            assert (await client.get(BEATS)).status_code == 401
            stolen = {"Host": "elsewhere.example", "Cookie": f"{SESSION_COOKIE}=stolen"}
            assert (await client.get(BEATS, headers=stolen)).status_code == 421
            assert (await client.get(BEATS, headers=signed, params={"limit": 0})).status_code == 422
            answer = await client.get(BEATS, headers=signed, params={"limit": 1})
            assert len(answer.json()["beats"]) == 1
            document = (await client.get("/openapi.json")).json()["paths"]
            assert document[BEATS]["get"]["tags"] == ["heartbeat"]
            assert {"200", "401", "403", "421", "422"} <= document[BEATS]["get"]["responses"].keys()
            assert await daemon.stop() == 0
        stopped = json.loads(ran(file, environment, "heartbeat", "beats", "--json").stdout)["beats"]
        assert len(stopped) >= 3, "the command asks the database itself"
    file.write_text("version: 1\n")
    left = ran(file, environment, "db", "check", "--json")
    assert json.loads(left.stdout) == {"schema": "current", "left_alone": {"heartbeat": 1}}
    assert "are of a feature that settings.features does not name" in ran(file, environment, "db", "check").stdout
    assert "No such command" in ran(file, environment, "heartbeat", "beats").stderr


async def _all_beats(daemon: Any) -> list[dict[str, Any]]:
    secret = await daemon.said("token", "create", "--subject", "other", "--role", "viewer")
    async with httpx.AsyncClient(
        base_url=daemon.url, headers={"Authorization": f"Bearer {secret.split()[-1]}"}
    ) as client:
        beats: list[dict[str, Any]] = (await client.get(BEATS, params={"limit": 1000})).json()["beats"]
    return beats


def test_no_file_of_the_product_knows_it() -> None:
    sources = [
        path
        for package in ("config", "store", "triggers", "watcher", "sdk", "tools")
        for path in (ROOT / package).rglob("*.py")
    ]
    assert len(sources) > 500
    assert [
        path for path in sources if "heartbeat_beat" in (text := path.read_text()) or "asset_watcher_heartbeat" in text
    ] == []


def test_its_tables_are_not_made_by_a_daemon_that_may_not_upgrade(example: Path, tmp_path: Path) -> None:
    """PostgreSQL is upgraded only by who says so; tests/service/store/test_feature_tables.py has both databases."""
    file = configured(tmp_path, free_port())
    environment = {**os.environ, "PYTHONPATH": str(example), "HEARTBEAT_URL": "http://127.0.0.1:9"}
    without = tmp_path / "without.yaml"
    without.write_text("version: 1\n")
    assert ran(without, environment, "db", "upgrade").returncode == 0
    checked = ran(file, environment, "db", "check")
    assert checked.returncode == 1
    assert checked.stderr == (
        "the tables of the feature heartbeat are not there yet, and it needs version 1; run `watcher db upgrade`\n"
    )
    assert ran(file, environment, "db", "upgrade").returncode == 0
    assert ran(file, environment, "db", "check").returncode == 0


ENDS = """
async def run(*, task_status):
    task_status.started()
    raise ValueError("nobody knows the tides")

def build(context):
    return run

def nothing(context):
    raise LookupError("there is no harbour")

FEATURE = Feature(name="tides", services=(
    FeatureService(name="almanac", build="feature_tides.build"),
    FeatureService(name="harbour", build="feature_tides.nothing", scope="triggerer"),
    FeatureService(name="pilot", build="feature_tides.NOBODY", scope="scheduler"),
))
"""


@contextmanager
def features(folder: Path, **sources: str) -> Iterator[dict[str, str]]:
    """Install features into a folder. Yield an environment whose Python has them."""
    installed = folder / "installed"
    installed.mkdir()
    for name, source in sources.items():
        add_feature(installed, name, source)
    yield {**os.environ, "PYTHONPATH": str(installed), "WATCHER_SETTINGS__API__AUTH": "none"}


async def test_a_service_that_ends_ends_nothing_else_and_a_feature_of_another_contract_is_a_problem(
    tmp_path: Path,
) -> None:
    port, file = free_port(), tmp_path / "watchers.yaml"
    file.write_text(
        f"version: 1\nsettings: {{api: {{port: {port}}}, features: [tides, later], later: {{moon: full}}}}\n"
    )
    with features(tmp_path, tides=ENDS, later="FEATURE = Feature(name='later', contract=2)") as environment:
        sentence = "the feature `later` is written for contract 2 and this daemon has contract 1"
        checked = await run_sync(ran, file, environment, "check")
        assert (checked.returncode, "settings.features" in checked.stdout, sentence in checked.stdout) == (
            0,
            True,
            True,
        )
        async with (
            running_daemon(file, f"http://127.0.0.1:{port}", environment) as daemon,
            httpx.AsyncClient(base_url=daemon.url) as client,
        ):
            expected = (sentence, "nobody knows the tides", "there is no harbour", "has no attribute 'NOBODY'")
            with anyio.fail_after(PATIENCE):
                problems = ""
                while not all(words in problems for words in expected):
                    await anyio.sleep(0.05)
                    problems = (await client.get("/api/v2/problems")).text
            assert "the service almanac of the feature tides has ended" in problems
            assert (await client.get("/readyz")).status_code == 200
            assert "Traceback" not in await daemon.said("status")
            assert await daemon.stop() == 0


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (
            "FEATURE = Feature(name='tides', commands={'status': 'a.b'})",
            "both bring 'status' as one of their commands; leave one out",
        ),
        ("FEATURE = Feature(name='tides', pages='a.b')", "brings `pages`, which only the daemon's own features may do"),
        (
            "FEATURE = Feature(name='tides', start_check='feature_tides.check')\nasync def check(*_): raise KeyError('moon')",
            "the feature tides has failed (KeyError: 'moon'); correct it",
        ),
        (
            "from fastapi import APIRouter\nrouter = APIRouter()\nROUTERS = [router]\n\n@router.get('/tides')\nasync def tides() -> int:\n    return 1\n\nFEATURE = Feature(name='tides', routes='feature_tides.ROUTERS')",
            "the route /tides of the feature tides needs no role",
        ),
        (
            "FEATURE = Feature(name='tides', routes='feature_tides.ROUTERS')",
            "the feature tides has failed (AttributeError",
        ),
    ],
    ids=["command", "hook", "start check", "role", "import"],
)
def test_a_feature_that_breaks_its_contract_is_one_sentence_at_the_start(
    tmp_path: Path, source: str, sentence: str
) -> None:
    file = tmp_path / "watchers.yaml"
    file.write_text("version: 1\nsettings: {api: {port: 0}, features: [tides]}\n")
    with features(tmp_path, tides=source) as environment:
        started = ran(file, environment, "run")
    assert started.returncode == 2, started.stderr
    said = [line for line in started.stderr.splitlines() if not line.startswith("{")]
    assert (len(said), sentence in said[0]) == (1, True), started.stderr
