"""The first process of a driver's container, as it is started in one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.effort import PATIENCE
from tests.unit.submit.switchboard import Switchboard, program
from watcher.features.kubernetes import wrapper
from watcher.submit.local import shim

START = """
import importlib.util, pathlib, sys
secret, work, private, message = map(pathlib.Path, sys.argv[1:])
spec = importlib.util.spec_from_file_location("wrapper", secret / "wrapper.py")
module = importlib.util.module_from_spec(spec)
sys.modules["wrapper"] = module
spec.loader.exec_module(module)
module.end(module.main(work, private, message))
"""


class Renewals(ThreadingHTTPServer):
    """The daemon's API: it answers each renewal with `status` and the next token, or with `reason`."""

    daemon_threads = True

    def __init__(self, address: str = "127.0.0.1") -> None:
        super().__init__((address, 0), RenewalHandler)
        self.status = 200
        self.reason = "fenced"
        self.body: bytes | None = None
        """What it answers instead, if it is not None."""
        self.tokens: list[str] = []
        self.holders: list[str] = []
        self.renewed = threading.Semaphore(0)


class RenewalHandler(BaseHTTPRequestHandler):
    server: Renewals

    def do_POST(self) -> None:
        assert self.path == "/execution/tries/renewal"
        self.server.holders.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["holder"])
        self.server.tokens.append(self.headers["Authorization"].removeprefix("Bearer "))
        answer: Any = {"token": f"token-{len(self.server.tokens)}"}
        if self.server.status >= 400:
            answer = {"detail": {"reason": self.server.reason, "message": "no"}}
        body = json.dumps(answer).encode() if self.server.body is None else self.server.body
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(max(len(body), 20)))
        self.end_headers()
        self.wfile.write(body)
        self.server.renewed.release()

    def log_message(self, *_: Any) -> None:
        pass


class Container:
    """The files of a container, and the wrapper as its first process."""

    def __init__(self, folder: Path, api: Renewals, switchboard: Switchboard) -> None:
        self.folder, self.switchboard = folder, switchboard
        self.message = folder / "message"
        self.secret, self.work, self.private = (folder / name for name in ("secret", "work", "private"))
        for made in (self.secret, self.work, self.private):
            made.mkdir()
        for module in (wrapper, shim):
            shutil.copy(str(module.__file__), self.secret)
        self.context = {"api": f"http://127.0.0.1:{api.server_port}/", "token": "token-0"}

    def start(self, text: str, *, lease: float = 60.0, argv: list[str] | None = None) -> subprocess.Popen[bytes]:
        application = self.folder / "application.py"
        application.write_text(program(text))
        order = {
            "argv": argv or [sys.executable, str(application), self.switchboard.port],
            "environment": {"OF_JOB": "1"},
            "renew_every": 0.05,
            "lease": lease,
        }
        (self.secret / "order.json").write_text(json.dumps(order))
        (self.secret / "context.json").write_text(json.dumps(self.context))
        places = [str(place) for place in (self.secret, self.work, self.private, self.message)]
        environment = {"PATH": os.environ["PATH"], "POD_IP": "10.1.2.3"}
        start = [sys.executable, "-I", "-c", START, *places]
        return subprocess.Popen(start, env=environment, stdout=subprocess.PIPE)


@pytest.fixture
def api() -> Iterator[Renewals]:
    with Renewals() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def container(tmp_path: Path, api: Renewals, switchboard: Switchboard) -> Container:
    return Container(tmp_path, api, switchboard)


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, output.decode()


def test_the_driver_gets_its_context_in_a_file_of_its_own_which_ends_with_it(container: Container) -> None:
    text = """
context = os.environ["ASSET_JOB_CONTEXT"]
print(context, oct(os.stat(context).st_mode & 0o777), open(context).read(), os.environ["OF_JOB"])
sys.exit(5)
"""
    code, output = ended(container.start(text))
    path, mode, shown = output.split(" ", 2)
    assert (code, mode) == (5, "0o600")
    assert json.loads(shown.rpartition(" ")[0]) == container.context
    assert Path(path).parent == container.private
    assert not Path(path).exists()
    assert container.message.read_text().startswith("asset-watcher: \n")


def test_it_reports_what_the_driver_took(container: Container) -> None:
    text = "memory = bytearray(150_000_000); print(sum(range(3_000_000)))"
    assert ended(container.start(text))[0] == 0
    cost = json.loads(container.message.read_text().partition("\n")[2])
    assert cost["cpu_seconds"] > 0
    assert cost["peak_mb"] >= 150


def test_a_container_that_is_started_twice_starts_no_second_driver(container: Container) -> None:
    assert ended(container.start("print('ran')")) == (0, "ran\n")
    assert ended(container.start("print('ran')")) == (wrapper.STARTED_TWICE, "")
    assert container.message.read_text() == "asset-watcher: started twice"


def test_a_second_container_whose_folder_is_empty_starts_no_driver(container: Container, api: Renewals) -> None:
    """Its node ended the one before, could not report that, and lost what it knew."""
    assert ended(container.start("print('ran')")) == (0, "ran\n")
    shutil.rmtree(container.work)
    container.work.mkdir()
    api.status, api.reason = 409, "held"
    assert ended(container.start("print('ran')")) == (wrapper.STARTED_TWICE, "")
    assert container.message.read_text() == "asset-watcher: started twice"
    assert len({*api.holders}) == 2


@pytest.mark.parametrize("body", [b'{"tok', b"[]", b"{}", b"<html>"])
def test_an_answer_that_is_not_the_apis_grants_nothing_and_ends_nothing(
    container: Container, api: Renewals, body: bytes
) -> None:
    api.body = body
    process = container.start("print('ran')")
    for _ in range(3):
        assert api.renewed.acquire(timeout=PATIENCE)
    assert process.poll() is None
    api.body = None
    assert ended(process) == (0, "ran\n")
    assert len({*api.holders}) == 1


def test_a_container_that_starts_when_its_try_is_over_starts_no_driver(container: Container, api: Renewals) -> None:
    api.status = 409
    assert ended(container.start("print('ran')")) == (wrapper.FENCED, "")
    assert "superseded" in container.message.read_text()


def test_the_driver_waits_for_the_first_answer(container: Container, api: Renewals) -> None:
    api.status = 503
    process = container.start("print('ran')")
    for _ in range(3):
        assert api.renewed.acquire(timeout=PATIENCE)
    api.status = 200
    assert ended(process) == (0, "ran\n")


def test_a_driver_that_gets_no_answer_never_starts(container: Container, api: Renewals) -> None:
    api.status = 503
    assert ended(container.start("print('ran')", lease=0.3)) == (wrapper.FENCED, "")
    assert "did not answer" in container.message.read_text()


def test_it_renews_with_the_token_of_the_answer_before(container: Container, api: Renewals) -> None:
    process = container.start("call(sys.argv[1], 'main')")
    main = container.switchboard.next_caller()
    for _ in range(3):
        assert api.renewed.acquire(timeout=PATIENCE)
    main.release()
    assert ended(process)[0] == 0
    assert api.tokens[:3] == ["token-0", "token-1", "token-2"]


@pytest.mark.parametrize("status", [401, 404, 409])
def test_a_superseded_try_is_ended_at_once_with_all_its_processes(
    container: Container, api: Renewals, status: int
) -> None:
    process = container.start(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); child('grandchild'); call(sys.argv[1], 'main')"
    )
    callers = container.switchboard.callers("main", "grandchild")
    api.status = status
    assert ended(process)[0] == wrapper.FENCED
    for caller in callers:
        caller.wait_gone()
    sentence, _ = container.message.read_text().split("\n")
    assert sentence == f"asset-watcher: the daemon answered {status}: this try is over or superseded"


@pytest.mark.parametrize("status", [500, 503])
def test_without_an_answer_the_lease_ends_and_the_driver_with_it(
    container: Container, api: Renewals, status: int
) -> None:
    process = container.start("call(sys.argv[1], 'main')", lease=2.0)
    main = container.switchboard.next_caller()
    assert api.renewed.acquire(timeout=PATIENCE)
    api.status = status
    assert ended(process)[0] == wrapper.FENCED
    main.wait_gone()
    assert "did not answer" in container.message.read_text()


def test_sigterm_reaches_the_driver_which_may_end_in_its_own_way(container: Container) -> None:
    process = container.start("""
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
call(sys.argv[1], "main")
""")
    container.switchboard.next_caller()
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 9


def test_a_driver_that_is_killed_counts_as_a_shell_counts_it(container: Container) -> None:
    assert ended(container.start("os.kill(os.getpid(), signal.SIGKILL)"))[0] == 137


def test_a_program_that_is_missing_is_named(container: Container) -> None:
    assert ended(container.start("", argv=["/no/such/program"]))[0] == 127
    assert (
        container.message.read_text()
        == "asset-watcher: /no/such/program could not be started: No such file or directory"
    )


def test_the_pods_address_is_in_sparks_properties_and_nowhere_else() -> None:
    argv = ["spark-submit", "--conf", "spark.driver.host={POD_IP}", "load.py", "{POD_IP}"]
    assert wrapper.arguments(argv, "10.1.2.3") == [
        *("spark-submit", "--conf", "spark.driver.host=10.1.2.3", "load.py", "{POD_IP}")
    ]
    assert "spark.driver.host=[fd00::3]" in wrapper.arguments(argv, "fd00::3")


def test_time_in_which_the_machine_slept_counts() -> None:
    """A suspended node runs on with its driver's lease over; CLOCK_MONOTONIC stands still meanwhile."""
    lease = wrapper.Lease("http://127.0.0.1:1", "t", renewed_at=wrapper.boot_time() - 61)
    assert "did not answer for 61 s" in lease.end(60)
    assert lease.end(62) == ""
