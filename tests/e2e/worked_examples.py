"""A page's worked example, played: its configuration, its program and each of its steps are what runs."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
import httpx

from tests.effort import PATIENCE
from tests.stand_in_spark import stand_in_spark
from watcher.features.demo.counting import get
from watcher.features.demo.daemon import Daemon, running_daemon
from watcher.shared.servers import free_port

PLACE: Final = "/data/sales"
"""The folder of the pages' configurations, which is another one here."""
JOB: Final = "/api/v2/dags/load_day"


def block(section: str, language: str) -> str:
    """Return the one block of a section that is in this language."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return str(text)


def steps(section: str) -> list[tuple[str, str, str]]:
    """Return the number of each step of a section, what is done in it and what follows."""
    rows = re.findall(r"^\| ([0-9]+) \| (.+?) \| (.+) \|$", section.replace(r"\|", "\0"), re.MULTILINE)
    assert len(rows) == len(re.findall(r"^\| [0-9]", section, re.MULTILINE)) > 0
    return [(number, done.replace("\0", "|"), follows.replace("\0", "|")) for number, done, follows in rows]


@dataclass
class Example:
    folder: Path
    daemon: Daemon
    client: httpx.AsyncClient
    line: str
    """The pattern of the line that each try prints."""
    said: str = ""
    """What the last command has printed."""
    printed: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """What each try has printed."""
    size: int = 0

    async def do(self, what: str) -> None:
        (words, rest) = re.fullmatch(r"`([^`]+)`(.*)", what, re.DOTALL).groups()  # type: ignore[union-attr]
        if words.startswith("watcher "):
            times = re.sub(r"--from \S+Z", "--from 2000-01-01T00:00:00Z", words.replace(PLACE, str(self.folder)))
            self.said = await self.daemon.said(
                *shlex.split(re.sub(r"--to \S+Z", "--to 2200-01-01T00:00:00Z", times))[1:]
            )
            return
        if names := re.fullmatch(r", which names `([^`]+)` and `([^`]+)`, comes", rest):
            self.put(words, "\n".join(names.groups()))
            return
        marker = re.fullmatch(r" and `([^`]+)` come", rest)
        assert marker or rest in {" comes", " is replaced"}
        assert (self.folder / words).exists() == (rest == " is replaced")
        self.size += 1
        self.put(words, "x" * self.size)
        if marker:
            self.put(marker[1], "")

    def put(self, name: str, text: str) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        new = self.folder.with_name(".new")
        new.write_text(text)
        new.rename(file)

    async def follows(self, what: str) -> None:
        """Wait until exactly that has followed: what a command prints, a partition that waits, or runs and what they print."""
        if prints := re.match(r"it prints `([^`]+)`$", what):
            assert prints[1] in re.sub(r"\s+", " ", self.said), self.said
            return
        if what == "nothing yet":
            return
        if waits := re.match(r"`([^`]+)` waits for (.+?)(?:: each day .*)?$", what):
            await self._until(self._waiting, waits[1], waits[2].replace(PLACE, str(self.folder)))
        if again := re.match(r"`([^`]+)` shows `redelivery incomplete`: (.+)$", what):
            await self._until(self._waiting, again[1], f"redelivery incomplete: {again[2]}")
        runs = [part.removeprefix("run: ") for part in what.split("; ") if part.startswith("run: ")]
        assert waits or again or runs, what
        before = dict(self.printed)
        await self._until(self._has_printed, len(before) + len(runs))
        assert [text for each, text in self.printed.items() if each not in before] == runs

    async def _waiting(self, key: str, lacks: str) -> bool:
        partitions = (await get(self.client, f"{JOB}/queue"))["partitions"]
        return (key, lacks) in {(each["partition_key"], each["lacks"]) for each in partitions}

    async def _has_printed(self, count: int) -> bool:
        """Read what tries have printed, in the order in which they ended."""
        runs = (await get(self.client, f"{JOB}/dagRuns"))["dag_runs"]
        ended = []
        assert "failed" not in {run["state"] for run in runs}, runs
        for run_id in (run["dag_run_id"] for run in runs):
            path = f"{JOB}/dagRuns/{run_id}/taskInstances/load_day"
            tries = (await get(self.client, f"{path}/tries"))["task_instances"]
            ended += [(each["end_date"], run_id, each["try_number"]) for each in tries if each["end_date"] is not None]
        for _, run_id, number in sorted(ended):
            if (run_id, number) not in self.printed:
                path = f"{JOB}/dagRuns/{run_id}/taskInstances/load_day/logs/{number}"
                text = (await self.client.get(path, headers={"Accept": "application/json"})).text
                (line,) = set(re.findall(self.line, text))
                self.printed = {**self.printed, (run_id, number): line}
        assert len(self.printed) <= count, self.printed
        return len(self.printed) == count

    async def _until(self, condition: object, *arguments: object) -> None:
        with anyio.fail_after(PATIENCE):
            while not await condition(*arguments):  # type: ignore[operator]
                await anyio.sleep(0.1)


@asynccontextmanager
async def playing(folder: Path, yaml: str, program: str, line: str) -> AsyncIterator[tuple[Example, Path, str]]:
    """Start a daemon on the page's configuration and program, below `folder`. Yield it, the file, and the text that is in it."""
    place, port = folder / "sales", free_port()
    place.mkdir()
    text = yaml.replace(f"file://{PLACE}/", f"file://{place}/")
    text = text.replace("spark: {", f"spark: {{env: {{SPARK_HOME: {stand_in_spark(folder)}}}, ")
    configuration = folder / "watchers.yaml"
    configuration.write_text(text)
    (folder / "load_day.py").write_text(program)
    settings = {"WATCHER_SETTINGS__API__PORT": str(port), "WATCHER_SETTINGS__API__AUTH": "none"}
    url = f"http://127.0.0.1:{port}"
    async with (
        running_daemon(configuration, url, {**os.environ, **settings, "WATCHER_URL": url}) as daemon,
        httpx.AsyncClient(base_url=daemon.url) as client,
    ):
        yield Example(place, daemon, client, line), configuration, text
        assert await daemon.stop() == 0
