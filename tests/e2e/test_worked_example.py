"""The worked example of docs/scheduling.md: its configuration, its program and each of its steps are what runs here."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
import httpx
import pytest

from tests.effort import PATIENCE
from tests.stand_in_spark import stand_in_spark
from watcher.features.demo.counting import get
from watcher.features.demo.daemon import Daemon, running_daemon
from watcher.shared.servers import free_port

pytestmark = pytest.mark.slow
PAGE: Final = (Path(__file__).parents[2] / "docs/scheduling.md").read_text(encoding="utf-8")
SECTION: Final = re.split(r"^## ", PAGE.partition("## A worked example")[2], maxsplit=1, flags=re.MULTILINE)[0]
JOB: Final = "/api/v2/dags/load_day"


def block(language: str) -> str:
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)
    return str(text)


def steps() -> list[tuple[str, str, str]]:
    """The number of each step, what is done in it and what follows."""
    rows = re.findall(r"^\| ([0-9]+) \| (.+?) \| (.+) \|$", SECTION.replace(r"\|", "\0"), re.MULTILINE)
    return [(number, done.replace("\0", "|"), follows.replace("\0", "|")) for number, done, follows in rows]


@dataclass
class Example:
    folder: Path
    daemon: Daemon
    client: httpx.AsyncClient
    printed: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """What each try has printed."""
    size: int = 0

    async def do(self, what: str) -> None:
        (words, rest) = re.fullmatch(r"`([^`]+)`(.*)", what, re.DOTALL).groups()  # type: ignore[union-attr]
        if words.startswith("watcher "):
            times = words.replace("2026-11-20T00:00:00Z", "2000-01-01T00:00:00Z")
            await self.daemon.said(*shlex.split(times.replace("2026-11-27T00:00:00Z", "2200-01-01T00:00:00Z"))[1:])
            return
        if names := re.fullmatch(r", which names `([^`]+)` and `([^`]+)`, comes", rest):
            self.put(words, "\n".join(names.groups()))
            return
        if another := re.fullmatch(r" and `([^`]+)` come", rest):
            self.put(another[1], "")
            rest = " comes"
        assert rest in {" comes", " is replaced"}
        assert (self.folder / words).exists() == (rest == " is replaced")
        self.size += 1
        self.put(words, "x" * self.size)

    def put(self, name: str, text: str) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        new = self.folder.with_name(".new")
        new.write_text(text)
        new.rename(file)

    async def follows(self, what: str) -> None:
        """Wait until exactly that has followed: a partition that waits, or runs and what they print."""
        if waits := re.match(r"`([^`]+)` waits for (.+?)(?:: each day .*)?$", what):
            await self._until(self._waiting, waits[1], waits[2].replace("/data/sales", str(self.folder)))
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
                (line,) = set(re.findall(r"day [^\"]* late (?:True|False)", text))
                self.printed = {**self.printed, (run_id, number): line}
        assert len(self.printed) <= count, self.printed
        return len(self.printed) == count

    async def _until(self, condition: object, *arguments: object) -> None:
        with anyio.fail_after(PATIENCE):
            while not await condition(*arguments):  # type: ignore[operator]
                await anyio.sleep(0.1)


BY_MANIFEST, AGAIN = "10", "13"
"""The first steps of the job that waits for manifests, and of the one whose partitions may be delivered again."""


async def test_each_step_has_what_the_page_says(tmp_path: Path) -> None:
    folder, port = tmp_path / "sales", free_port()
    folder.mkdir()
    text = block("yaml").replace("file:///data/sales/", f"file://{folder}/")
    spark = f"spark: {{env: {{SPARK_HOME: {stand_in_spark(tmp_path)}}}, "
    text = text.replace("spark: {", spark)
    configuration = tmp_path / "watchers.yaml"
    configuration.write_text(text)
    (tmp_path / "load_day.py").write_text(block("python"))
    settings = {"WATCHER_SETTINGS__API__PORT": str(port), "WATCHER_SETTINGS__API__AUTH": "none"}
    url = f"http://127.0.0.1:{port}"
    async with (
        running_daemon(configuration, url, {**os.environ, **settings, "WATCHER_URL": url}) as daemon,
        httpx.AsyncClient(base_url=daemon.url) as client,
    ):
        example = Example(folder, daemon, client)
        assert len(steps()) == len(re.findall(r"^\| [0-9]", SECTION, re.MULTILINE)) > 5
        for number, done, follows in steps():
            if number == BY_MANIFEST:
                changed = text.replace('{marker: "**/_SUCCESS"}', '{manifest: "*.manifest"}')
                configuration.write_text(changed.replace('last: ["**/_SUCCESS"]', 'last: ["**/*.manifest"]'))
                await daemon.said("reload")
            if number == AGAIN:
                configuration.write_text(text.replace('_SUCCESS"}', '_SUCCESS", again: true}'))
                await daemon.said("reload")
            await example.do(done)
            await example.follows(follows)
        assert await daemon.stop() == 0
