"""Daemons are killed at random moments while they submit tries to a real node. A witness outside counts the starts."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest

from tests.effort import PATIENCE, SEED, effort
from tests.kubernetes_accounts import daemon_token
from tests.kubernetes_api import GATEWAY, KubernetesApi
from tests.kubernetes_node import running_node
from tests.service.kubernetes.pod_daemon import PodOrder, settle, tries_of
from watcher.submit.base import Status
from watcher.submit.kubernetes import names
from watcher.submit.kubernetes.api import PodApi

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]
LONGEST_LIFE = 0.12
AT_ONCE = 6


class Witness(ThreadingHTTPServer):
    """The daemon's API as far as wrappers need it, which counts the starts that drivers post."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("0.0.0.0", 0), WitnessHandler)  # noqa: S104  pods reach it by the bridge
        self.starts: Counter[str] = Counter()


class WitnessHandler(BaseHTTPRequestHandler):
    server: Witness

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.startswith("/witness/"):
            self.server.starts[self.path.rpartition("/")[2]] += 1
        body = json.dumps({"token": "t"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def witness() -> Iterator[Witness]:
    with Witness() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    with running_node(tmp_path_factory.mktemp("node")) as api:
        yield api


def kill_daemon(word: str, order: PodOrder, life: float) -> None:
    program = [sys.executable, "-m", "tests.service.kubernetes.pod_daemon", word, order.to_json()]
    root = Path(__file__).parents[3]
    with subprocess.Popen(program, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(life)
        process.kill()


async def follow(order: PodOrder, ends: dict[str, Status]) -> None:
    """Follow the try to its end as the last daemon, which lives, and forget it."""
    async with order.cluster().client() as client:
        tries = tries_of(order, PodApi(client, order.namespace))
        handle = await settle(order, tries)
        with anyio.fail_after(PATIENCE):
            while (status := await tries.poll(handle)).phase != "exited":
                await anyio.sleep(0.5)
        await tries.forget(handle["tag"], handle)
        ends[order.task] = status


async def test_each_try_starts_once_whenever_daemons_are_killed_and_nothing_is_left(
    node: KubernetesApi, witness: Witness
) -> None:
    chance = random.Random(SEED)
    namespace, installation, ends = node.new_namespace(), str(uuid4()), dict[str, Status]()
    with node.client() as administrator:
        token = daemon_token(administrator, namespace)
    orders = [
        PodOrder(
            server=node.address,
            authority=node.authority.read_text(),
            token=token,
            namespace=namespace,
            installation=installation,
            task=str(uuid4()),
            api=f"http://{GATEWAY}:{witness.server_port}",
        )
        for _ in range(effort(2, 20) * AT_ONCE)
    ]
    for first in range(0, len(orders), AT_ONCE):
        batch = orders[first : first + AT_ONCE]
        for order in batch:
            for word in ("submit", *["settle"] * chance.choice([0, 1, 1, 2])):
                life = chance.uniform(0, LONGEST_LIFE)
                await anyio.to_thread.run_sync(kill_daemon, word, order, life)
        async with anyio.create_task_group() as tasks:
            for order in batch:
                tasks.start_soon(follow, order, ends)
    assert [witness.starts[order.task] for order in orders] == [1] * len(orders)
    assert {(status.exit_code, status.restarted) for status in ends.values()} == {(0, False)}
    await nothing_left(orders[0])


async def nothing_left(order: PodOrder) -> None:
    async with order.cluster().client() as client:
        pods = PodApi(client, order.namespace)
        with anyio.fail_after(PATIENCE):
            while (await pods.list("pods", f"{names.INSTALLATION}={order.installation}"))["items"]:
                await anyio.sleep(0.2)
        assert (await pods.list("secrets", f"{names.INSTALLATION}={order.installation}"))["items"] == []
