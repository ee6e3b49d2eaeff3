"""What a request to the API server ends with when something is between it and us, or nothing is there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from config.features.kubernetes.settings import DriverPod
from tests.stand_in_kubernetes import TOKEN, stand_in_kubernetes
from tests.unit.submit.kubernetes_pods import SilentTries
from tests.unit.submit.plain import make_submission
from watcher.features.kubernetes.api import PodApi
from watcher.features.kubernetes.cluster import Cluster
from watcher.features.kubernetes.manifest import DriverCommand, Place
from watcher.features.kubernetes.pod_tries import PodTries
from watcher.features.kubernetes.refusals import AnswerLost, ApiRefused
from watcher.shared.servers import free_port


class Proxy(BaseHTTPRequestHandler):
    """Sends who is not signed in there to another page, breaks off in an answer, and has no server for the rest."""

    def do_GET(self) -> None:
        if self.path.endswith("/away"):
            self.send_response(302)
            self.send_header("Location", "/login")
            self.end_headers()
        elif "/pods/aw-" in self.path:
            body = b'{"reason": "NotFound", "message": "it is the server that says so"}'
            self.send_response(404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        elif self.path.endswith("/half"):
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"{")
        else:
            self.send_error(404 if self.path.endswith("/none") else 502)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_error(400)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def proxy() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


async def test_what_a_proxy_answers_is_no_object_and_no_absence() -> None:
    with proxy() as server:
        async with Cluster(server=server).connection() as connection:
            api = PodApi(connection, "n")
            for name, code in (("away", 302), ("none", 404), ("other", 502)):
                with pytest.raises(ApiRefused) as refused:
                    await api.read("pods", name)
                assert refused.value.code == code
            with pytest.raises(AnswerLost, match="pods/half"):
                await api.read("pods", "half")


async def test_a_creation_that_a_proxy_refuses_is_not_the_jobs_fault() -> None:
    """What Kubernetes calls a `BadRequest` fails the try for good."""
    with proxy() as server:
        async with Cluster(server=server).connection() as connection:
            place, records = Place(namespace="n", installation="i"), SilentTries(0.0)
            tries = PodTries(
                api=PodApi(connection, "n"),
                place=place,
                silence=records.silence,
                was_renewed=records.was_renewed,
                is_ours=records.may_start,
            )
            submission = make_submission("1", Path("/load.py"), context={"token": "token-1"})
            command = DriverCommand(argv=["spark-submit"], environment={})
            with pytest.raises(ApiRefused, match="400 Bad Request"):
                await tries.submit(submission, DriverPod(image="watcher:1"), command, {})


async def test_a_server_that_cannot_be_reached_is_a_passing_error_of_the_system() -> None:
    async with Cluster(server=f"http://127.0.0.1:{free_port()}").connection() as connection:
        with pytest.raises(OSError, match="Cannot connect to host") as failed:
            await PodApi(connection, "n").read("pods", "x")
    assert not isinstance(failed.value, AnswerLost)


@pytest.mark.parametrize("is_done", [False, True], ids=["not done", "answer lost"])
async def test_a_creation_without_an_answer_is_not_sent_again(*, is_done: bool) -> None:
    """Whether it was done has to be looked up: the second one would be refused as the name of another pod."""
    with stand_in_kubernetes() as kubernetes:
        kubernetes.drop = lambda _request, **moment: moment["is_done"] is is_done
        async with Cluster(server=kubernetes.address, token=TOKEN).connection() as connection:
            with pytest.raises(AnswerLost, match="POST"):
                await PodApi(connection, "n").create("pods", {"metadata": {"name": "x"}, "spec": {}})
        assert len(kubernetes.requests) == 1


async def test_a_watched_object_may_be_as_large_as_the_server_stores_it() -> None:
    """It comes in many pieces, without a newline in them."""
    with stand_in_kubernetes() as kubernetes:
        large = {"name": "x", "annotations": {"a": "b" * 1_000_000}}
        kubernetes.create("n", "pods", {"metadata": large, "spec": {}})
        async with (
            Cluster(server=kubernetes.address + "/", token=TOKEN).connection() as connection,
            aclosing(PodApi(connection, "n").watch("pods", "", "0")) as changes,
        ):
            change = await anext(changes)
    assert change["object"]["metadata"]["annotations"] == large["annotations"]
