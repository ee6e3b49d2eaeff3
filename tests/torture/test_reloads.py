"""Reloads under load, a quarter of them invalid: each row and file is emitted once, and unchanged watchers never notice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from tests import loopback
from tests.databases import both_in_long_form
from tests.effort import SEED, effort
from tests.torture.results import Result, difference
from tests.torture.rhythm import rhythm
from tests.torture.world import World

pytestmark = [pytest.mark.service, pytest.mark.slow]
RELOADS = effort(12, 200)
APPLIED, REFUSED = httpx.codes.OK, httpx.codes.UNPROCESSABLE_ENTITY


@pytest.mark.parametrize("dialect", both_in_long_form("postgresql"), indirect=True)
def test_reloads_lose_and_repeat_nothing_and_unchanged_watchers_keep_their_rhythm(
    tmp_path: Path, shop: str, database_url: str, dialect: str, record_result: Callable[[Result], None]
) -> None:
    with World(tmp_path, shop, database_url) as world:
        world.start()
        texts = configurations(json.loads(world.daemons.configuration.read_text()), Random(SEED))
        process = world.daemons.running[""].pid
        with world.sources.load(SEED), rhythm(world.sources, process) as measured:
            for turn in range(RELOADS):
                text = next(texts)
                is_wrong = turn % 4 == 2
                answer = reload(world, text[: len(text) // 2] if is_wrong else text)
                assert answer.status_code == (REFUSED if is_wrong else APPLIED), answer.text
        tally = world.write_and_settle()
        beginnings = [record["state"] for record in world.daemons.records("watcher.state") if of_witness(record)]
        assert world.daemons.stop() == 0
    fault = f"reload, {len(range(2, RELOADS, 4))} wrong"
    figures = {"times": RELOADS, "gap": str(measured), **difference(tally, None)}
    record_result(Result(fault=fault, database=dialect, seed=SEED, **figures))
    assert (tally.lost, tally.repeated) == (0, 0)
    assert beginnings.count("starting") == 1, "the witness was started once"
    assert measured.missed() == []


def configurations(document: dict[str, Any], dice: Random) -> Iterator[str]:
    """Yield configurations. Each changes the watchers of rows and files, and may have one more watcher of rows."""
    watchers = {name: asset["watchers"] for name, asset in document["assets"].items()}
    while True:
        for changed in (watchers["orders"]["rows"], watchers["inbox"]["files"]):
            changed["interval"] = f"{dice.randint(10, 30) * 10}ms"
        if "more" in document["assets"]:
            del document["assets"]["more"]
        else:
            document["assets"]["more"] = {"watchers": {"more": {**watchers["orders"]["rows"], "table": "orders"}}}
        yield json.dumps(document)


def reload(world: World, text: str) -> httpx.Response:
    """Replace the file as editors do, and request a reload. The daemon may have noticed the new file by itself before."""
    new = world.folder / "new.yaml"
    new.write_text(text)
    new.replace(world.daemons.configuration)
    return loopback.post(f"{world.daemons.address}/api/v2/reload")


def of_witness(record: dict[str, Any]) -> bool:
    return record["watcher"] == "witness"
