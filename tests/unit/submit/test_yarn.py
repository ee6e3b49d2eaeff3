"""Requests to YARN's resource managers, with a stand-in that responds as they do; tests/service/spark has a real one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest
import structlog

from watcher.submit.spark import yarn
from watcher.submit.spark.yarn import ApplicationsLeft, ResourceManagers, resource_managers


class Manager(HTTPServer):
    """A resource manager with these living `applications`. With a `status` other than 200 it says nothing else."""

    status, stubborn = 200, False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.applications: list[str] = []
        self.queries: list[dict[str, list[str]]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Manager

    def do_GET(self) -> None:
        self.server.queries.append(parse_qs(urlsplit(self.path).query))
        apps = {"app": [{"id": name, "state": "RUNNING"} for name in self.server.applications]}
        self._answer({"apps": apps if self.server.applications else None})

    def do_PUT(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert asked == {"state": "KILLED"}
        if not self.server.stubborn:
            self.server.applications.remove(self.path.split("/")[5])
        self._answer(asked)

    def _answer(self, body: object) -> None:
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None: ...


@contextmanager
def serving() -> Iterator[Manager]:
    with Manager() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def manager() -> Iterator[Manager]:
    with serving() as server:
        yield server


def test_remaining_applications_with_the_tag_are_killed_and_awaited(manager: Manager) -> None:
    manager.applications = ["application_1_1", "application_1_2"]
    nobody = "http://127.0.0.1:1"
    ResourceManagers(addresses=(nobody, manager.address), user="me").end_applications("run-a-1")
    assert manager.applications == []
    assert manager.queries[0]["applicationTags"] == ["run-a-1"]
    assert manager.queries[0]["user.name"] == ["me"]
    assert "ACCEPTED" in manager.queries[0]["states"][0]


def test_the_try_is_not_over_while_applications_may_be_left(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    manager.status = 503
    managers = ResourceManagers(addresses=(manager.address,), user="me")
    with pytest.raises(ApplicationsLeft, match=r"no resource manager of YARN says .*: HTTP 503\); the try is not over"):
        managers.end_applications("run-a-1")
    manager.status, manager.applications, manager.stubborn = 200, ["application_1_1"], True
    monkeypatch.setattr(yarn, "_PATIENCE", 0.3)
    with pytest.raises(ApplicationsLeft, match="has not ended application_1_1 of the try run-a-1 yet"):
        managers.end_applications("run-a-1")


def test_a_cluster_that_requires_authentication_delays_nothing(manager: Manager) -> None:
    manager.status = 401
    with structlog.testing.capture_logs() as logs:
        ResourceManagers(addresses=(manager.address,), user="me").end_applications("run-a-1")
    assert [(line["event"], line["status"]) for line in logs] == [("yarn.not_asked", 401)]


SITE = "<configuration>{}</configuration>"
PROPERTY = "<property><name>yarn.{}</name><value>{}</value></property>"
HA = {"resourcemanager.ha.enabled": "true", "resourcemanager.ha.rm-ids": "a, b", "resourcemanager.hostname.a": "one"}


@pytest.mark.parametrize(
    ("site", "conf", "addresses"),
    [
        ({}, {}, ("http://127.0.0.1:8088",)),
        ({"resourcemanager.hostname": "rm"}, {}, ("http://rm:8088",)),
        ({"resourcemanager.webapp.address": "rm:1"}, {}, ("http://rm:1",)),
        ({"resourcemanager.hostname": "rm", "resourcemanager.webapp.address": "${yarn.resourcemanager.hostname}:1"}, {}, ("http://rm:1",)),
        ({"resourcemanager.webapp.address": "rm:1"}, {"spark.hadoop.yarn.resourcemanager.webapp.address": "other:2"}, ("http://other:2",)),
        ({"http.policy": "HTTPS_ONLY", "resourcemanager.hostname": "rm"}, {}, ("https://rm:8090",)),
        ({**HA, "resourcemanager.webapp.address.b": "two:7"}, {}, ("http://one:8088", "http://two:7")),
    ],
)  # fmt: skip
def test_managers_are_read_from_hadoops_configuration(
    tmp_path: Path, site: dict[str, str], conf: dict[str, str], addresses: tuple[str, ...]
) -> None:
    text = SITE.format("".join(PROPERTY.format(name, value) for name, value in site.items()))
    (tmp_path / "yarn-site.xml").write_text(text)
    managers = resource_managers({"YARN_CONF_DIR": str(tmp_path), "HADOOP_USER_NAME": "me"}, conf)
    assert managers == ResourceManagers(addresses=addresses, user="me")


def test_an_invalid_configuration_file_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "yarn-site.xml").write_text("<configuration>")
    assert resource_managers({"HADOOP_CONF_DIR": str(tmp_path)}, {}).addresses == ("http://127.0.0.1:8088",)
