"""The places to which `watcher rewind NAME --to …` moves a watcher of files."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.unit.triggers_files.dict_host import DictHost
from tests.unit.triggers_files.simulated_bucket import KEYS, SimulatedPage, SimulatedVersion
from triggers.base import StoredPosition, TriggerContext
from triggers.errors import ConfigurationError
from triggers.file_scan.rules.modes import Algorithm, StrictAlgorithm, WindowAlgorithm
from triggers.file_scan.scanner import Scanner
from triggers.file_scan.state.scan_state import ScanState
from triggers.file_scan.trigger import FilesBatch
from triggers.file_scan.versions import SECOND, parse_moment
from triggers.local_folder.new_files import FileNewFiles, FileNewFilesOptions

TIME = "2026-11-20T09:00:00Z"
T = parse_moment(TIME)


def version(key: str, modified: int) -> SimulatedVersion:
    return SimulatedVersion(key=key, number=0, modified=modified, visible=modified)


CLOCK = T + 3600 * SECOND
LISTED = [version("at", T), version("new", T + 60 * SECOND), version("old", T - 60 * SECOND)]


def page(*versions: SimulatedVersion, clock: int = CLOCK) -> SimulatedPage:
    return SimulatedPage(clock=clock, last=None, listed=sorted(versions, key=lambda version: version.key))


class Rewound:
    """A watcher that had handled everything, was rewound, and polls again."""

    def __init__(self, algorithm: type[Algorithm], to: str) -> None:
        self.make = (lambda: WindowAlgorithm(86_400 * SECOND)) if algorithm is WindowAlgorithm else StrictAlgorithm
        self.host = DictHost()
        self.look()
        assert len(self.host.rows) == 3
        trigger = FileNewFiles(FileNewFilesOptions(path="/"), None, TriggerContext(watcher="w"))
        self.host.commit(trigger.rewound(self.host.stored, to))

    def look(self, *more: SimulatedVersion, clock: int = CLOCK) -> list[str]:
        scanner = Scanner(self.make(), self.host.stored, start="all", min_age=0, now=0)
        step = scanner.advance(page(*LISTED, *more, clock=clock), now=0)
        if step.position is not None:
            self.host.commit(step.position)
        return [found.key for found in step.versions]  # type: ignore[attr-defined]


@pytest.mark.parametrize("algorithm", [WindowAlgorithm, StrictAlgorithm])
@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ("start", ["at", "new", "old"]),
        (TIME, ["at", "new"]),
        ("2026-11-20T10:00:00+01:00", ["at", "new"]),
        ("2026-11-20", ["at", "new", "old"]),
        ("now", []),
    ],
)
def test_items_that_come_again_after_a_rewind(algorithm: type[Algorithm], to: str, expected: list[str]) -> None:
    watcher = Rewound(algorithm, to)
    assert watcher.host.rows == {}
    assert watcher.look() == expected
    assert watcher.look(clock=CLOCK + SECOND) == [], "once"


@pytest.mark.parametrize("algorithm", [WindowAlgorithm, StrictAlgorithm])
def test_a_rewind_to_now_emits_what_comes_later(algorithm: type[Algorithm]) -> None:
    watcher = Rewound(algorithm, "now")
    watcher.look()
    assert watcher.look(version("later", CLOCK), clock=CLOCK + SECOND) == ["later"]


def test_the_watermark_shows_where_a_scan_goes_on(tmp_path: Path) -> None:
    trigger = FileNewFiles(FileNewFilesOptions(path=str(tmp_path)), None, TriggerContext(watcher="w"))
    assert trigger.rewound(None, TIME).watermark == {"up_to": None, "horizon": TIME, "seen": 0, "scan": None}
    stored = StoredPosition(state={"anything": 1}, rows={1: 1})
    assert trigger.rewound(stored, "now").rows.clear


@pytest.mark.parametrize("to", ["yesterday", "", "17", "all", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_wrong_place_is_answered_by_how_to_write_one(to: str) -> None:
    trigger = FileNewFiles(FileNewFilesOptions(path="/"), None, TriggerContext(watcher="w"))
    with pytest.raises(ConfigurationError, match="write here, now, start, or an ISO timestamp"):
        trigger.rewound(None, to)


@pytest.mark.parametrize("algorithm", [WindowAlgorithm, StrictAlgorithm])
@pytest.mark.parametrize("start", ["all", "now", TIME])
@pytest.mark.parametrize("seed", range(30))
def test_a_position_accounts_for_exactly_what_it_will_never_emit(
    algorithm: type[Algorithm], start: str, seed: int
) -> None:
    """A watcher that goes on from anywhere in a scan emits the other versions, and none of these."""
    dice = random.Random(seed)

    def listed(number: int, count: int) -> list[SimulatedVersion]:
        keys = dice.sample(KEYS, count)
        times = [T - dice.randrange(7200) * SECOND for _ in keys]
        return [SimulatedVersion(key=k, number=number, modified=m, visible=m) for k, m in zip(keys, times, strict=True)]

    host, place = DictHost(), parse_moment(start) - 3600 * SECOND if start == TIME else start

    def scan(objects: Sequence[SimulatedVersion], clock: int, pages: int | None = None) -> list[SimulatedVersion]:
        made = WindowAlgorithm(3000 * SECOND) if algorithm is WindowAlgorithm else StrictAlgorithm()
        scanner = Scanner(made, host.stored, start=place, min_age=600 * SECOND, now=0)  # type: ignore[arg-type]
        told: list[SimulatedVersion] = []
        waiting = sorted((one for one in objects if one.key > (scanner.cursor or "")), key=lambda one: one.key)
        while pages is None or pages > 0:
            part, waiting = waiting[:4], waiting[4:]
            last = part[-1].key if waiting else None
            step = scanner.advance(SimulatedPage(clock=clock, last=last, listed=part), now=clock)
            told += step.versions  # type: ignore[arg-type]
            if step.position is not None:
                host.commit(step.position)
            if last is None:
                break
            pages = None if pages is None else pages - 1
        return told

    first = listed(0, 12)
    scan(first, T)
    more = {one.key: one for one in (*first, *listed(1, 8))}
    scan([*more.values()], T + 60 * SECOND, pages=dice.randrange(4))
    kept = host.stored
    assert kept is not None
    state = ScanState.from_json(kept.state)
    accounted = {one for one in more.values() if state.accounts_for(one, kept.rows)}
    told = {*scan([*more.values()], T + 60 * SECOND), *scan([*more.values()], T + 900 * SECOND)}
    assert accounted == {*more.values()} - told


async def test_a_batch_that_only_repeats_differs_from_one_with_news(tmp_path: Path) -> None:
    """Versions decide: a file of the same name, size and second is another version once it was written again."""

    def trigger() -> FileNewFiles:
        options = FileNewFilesOptions(path=str(tmp_path), start="all", min_age=timedelta(0))
        return FileNewFiles(options, None, TriggerContext(watcher="w"))

    for name in ("a", "b"):
        (tmp_path / name).write_text("1")
    host = DictHost()
    await host.run(trigger())
    kept = host.stored
    assert kept is not None
    host.commit(trigger().rewound(kept, "start"))
    (tmp_path / "b").unlink()
    (tmp_path / "b").write_text("2")
    assert await _retold(trigger(), host.stored, kept) == {"a": True, "b": False}


async def _retold(trigger: FileNewFiles, position: StoredPosition | None, kept: StoredPosition) -> dict[str, bool]:
    """Whether the kept position had emitted each file of the next batch, by key."""
    async with aclosing(trigger.events(position)) as batches:
        batch = await anext(batches)
    assert isinstance(batch, FilesBatch)
    return {one.key: trigger.retold(kept, replace(batch, versions=[one])) for one in batch.versions}
