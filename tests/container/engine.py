"""podman as the tests use it: without a network of its own, without extra rights, and with nothing left at the end."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import httpx

from tests import loopback
from tests.effort import PATIENCE
from watcher.shared.servers import free_port

ROOT = Path(__file__).parents[2]
LIMITS = ("--ulimit=nofile=4096:4096", "--ulimit=nproc=8192:8192")
"""Explicit limits: podman asks for more than a machine may allow."""
HARDENED = (
    "--read-only",
    "--read-only-tmpfs=false",
    "--cap-drop=all",
    "--security-opt=no-new-privileges",
    "--memory=2g",
)
BUILD = ("--pull=never", "--network=host", *LIMITS, *(("--layers=false",) if "CI" in os.environ else ()))
"""In CI nothing is built twice, so no intermediate layers are written."""
BASE = "localhost/python:slim-bookworm"
STRANGER = ("--user=1234567:0", "--passwd=false")
"""An account as OpenShift assigns it: any number, group 0, and no entry in /etc/passwd."""


def podman(*words: str, code: int | None = 0, **options: Any) -> subprocess.CompletedProcess[str]:
    answer = subprocess.run(["podman", *words], capture_output=True, text=True, check=False, **options)
    assert code in {None, answer.returncode}, f"{words}\n{answer.stdout}\n{answer.stderr}"
    return answer


def inspected(kind: str, name: str) -> dict[str, Any]:
    [content] = json.loads(podman(kind, "inspect", name).stdout)
    return dict(content)


def build(name: str, folder: Path, *words: str) -> None:
    podman("build", "--format=docker", *BUILD, "--tag", name, *words, str(folder))


def once(
    image: str, *words: str, flags: tuple[str, ...] = (), code: int | None = 0
) -> subprocess.CompletedProcess[str]:
    """Run `podman run IMAGE words` to its end."""
    return podman("run", "--rm", "--network=host", *LIMITS, *flags, image, *words, code=code)


class Volume:
    """A volume with a name of its own, which is removed at the end of the block."""

    def __init__(self) -> None:
        self.name = f"watcher-test-{uuid4().hex[:12]}"

    def __enter__(self) -> Self:
        podman("volume", "create", self.name)
        return self

    def __exit__(self, *_: object) -> None:
        podman("volume", "rm", "--force", self.name)


class Container:
    """A background container, which ends with the block. It answers at `url` once it is started."""

    def __init__(
        self, image: str, *words: str, flags: tuple[str, ...] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = f"watcher-test-{uuid4().hex[:12]}"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        given = {"WATCHER_SETTINGS__API__PORT": str(self.port), **(environment or {})}
        self._words = (*LIMITS, "--network=host", *flags, *(f"--env={k}={v}" for k, v in given.items()), image, *words)

    def __enter__(self) -> Self:
        podman("run", "--detach", "--name", self.name, *self._words)
        return self

    def __exit__(self, *_: object) -> None:
        podman("rm", "--force", "--volumes", "--time=0", self.name)

    def exec(self, *words: str, code: int | None = 0) -> str:
        return podman("exec", self.name, *words, code=code).stdout.strip()

    def is_healthy(self) -> bool:
        """Return the result of the image's own health check."""
        return podman("healthcheck", "run", self.name, code=None).returncode == 0

    def until_ready(self) -> None:
        self.until(lambda: loopback.get(f"{self.url}/readyz").is_success)

    def until(self, condition: Any) -> None:
        deadline = time.monotonic() + PATIENCE
        while not _holds(condition):
            assert inspected("container", self.name)["State"]["Running"], self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.2)

    def stop(self) -> int:
        """Stop the container as `docker stop` does, which kills after ten seconds. Return the exit code, 137 if it was killed."""
        podman("stop", "--time=10", self.name)
        return int(inspected("container", self.name)["State"]["ExitCode"])

    def kill(self) -> None:
        podman("kill", "--signal=KILL", self.name)
        podman("wait", self.name)

    def log(self) -> str:
        answer = podman("logs", self.name, code=None)
        return answer.stdout + answer.stderr


def _holds(condition: Any) -> bool:
    try:
        return bool(condition())
    except httpx.TransportError:
        return False
