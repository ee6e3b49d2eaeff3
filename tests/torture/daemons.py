"""Processes of `watcher run` with one configuration and one database. Each has a home and a log of its own."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, TypeAlias

import httpx

from tests import loopback
from tests.effort import PATIENCE
from tests.forks import Forked
from watcher.shared.servers import free_port

Program: TypeAlias = Forked | subprocess.Popen[bytes]
PLUGINS = Path(__file__).parents[1] / "plugins"
TRIGGERER = {"heartbeat": "500ms", "lease": "5s", "grace": "20s"}
STOPPED = {0, -signal.SIGTERM}
"""Exit codes after SIGTERM. The second one occurs when the signal came before the program handled it."""


class Daemons:
    """Daemons by name; '' is the name of an only one. They share an address: one of several has the role `api`."""

    def __init__(
        self,
        folder: Path,
        document: Mapping[str, Any],
        database: str | None = None,
        home: Path | None = None,
        **settings: Any,
    ) -> None:
        """`home` is the folder of the homes, by default `folder`. The triggerer's keys in `settings` are added to those here."""
        self.folder, self.home = folder, home or folder
        self.address = f"http://127.0.0.1:{(port := free_port())}"
        self.environment: dict[str, str] = {}
        self.running: dict[str, Program] = {}
        self.configuration = folder / "watchers.yaml"
        ours = {
            "api": {"port": port, "auth": "none", "secret": "s" * 32},
            "database": {"url": database},
            "plugins_dir": str(PLUGINS),
            **settings,
            "triggerer": {**TRIGGERER, **settings.get("triggerer", {})},
        }
        self.configuration.write_text(json.dumps({"version": 1, "settings": ours, **document}))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()

    def start(self, name: str = "", *words: str) -> Program:
        words = ("run", "-c", str(self.configuration), *words)
        home = str(self.home / f"home{name}")
        environment = {**os.environ, **self.environment, "WATCHER_SETTINGS__HOME": home}
        process: Program
        with self.log(name).open("ab") as log:
            if "LD_PRELOAD" in environment:  # options that begin the command line
                command = [sys.executable, "-m", "watcher", *words]
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
            else:
                process = Forked(words, output=log, environment=environment)
        self.running[name] = process
        return process

    def send(self, number: signal.Signals, name: str = "") -> None:
        self.running[name].send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM, name: str = "") -> int:
        """End the daemon with this signal and return its exit code."""
        process = self.running.pop(name)
        process.send_signal(number)
        try:
            return process.wait(PATIENCE)
        finally:
            process.kill()

    def log(self, name: str = "") -> Path:
        return self.folder / f"daemon{name}.log"

    def records(self, event: str, name: str = "") -> list[dict[str, Any]]:
        lines = self.log(name).read_text(errors="replace").splitlines()
        records = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return [record for record in records if record["event"] == event]

    def is_ready(self) -> bool:
        assert all(process.poll() is None for process in self.running.values()), "a daemon has ended"
        return loopback.get(f"{self.address}/readyz").is_success

    def get(self, path: str) -> Any:
        return loopback.get(self.address + path).raise_for_status().json()

    def post(self, path: str) -> None:
        loopback.post(self.address + path).raise_for_status()

    def watchers(self) -> dict[str, dict[str, Any]]:
        return {watcher["name"]: watcher for watcher in self.get("/api/v2/watchers")["watchers"]}

    def wait_for_any_moment(self, dice: random.Random) -> None:
        """Wait for a random moment: in its start, at work, just before or just after a commit, as its log shows."""
        moment = dice.choice(["starting", "working", "store.writing", "store.written"])
        if moment != "starting":
            until(self.is_ready)
        if moment.startswith("store."):
            _wait_for_words(self.log(), f'"{moment}"'.encode())
        else:
            time.sleep(dice.uniform(0, 2))


def _wait_for_words(log: Path, words: bytes) -> None:
    """Wait until the log gets these words, at most three seconds."""
    deadline = time.monotonic() + 3
    with log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        text = b""
        while words not in text and time.monotonic() < deadline:
            text = text[-len(words) :] + file.read()
            time.sleep(0.0005)


def until(condition: Callable[[], Any], patience: float = PATIENCE) -> float:
    """Wait until the condition holds and return the seconds it took. A refused connection counts as not yet."""
    began = time.monotonic()
    while not _holds(condition):
        assert time.monotonic() < began + patience, "waited in vain"
        time.sleep(0.1)
    return time.monotonic() - began


def _holds(condition: Callable[[], Any]) -> bool:
    try:
        return bool(condition())
    except httpx.HTTPError:
        return False
