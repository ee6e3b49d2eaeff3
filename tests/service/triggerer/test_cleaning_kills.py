"""Kills at every step of the cleaning, while files are written over: nothing goes that was not loaded, and nothing stays."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import select

from store.database import Database
from store.database.schema import asset_event
from store.features.clean_source.tables import cleaning
from tests.effort import SEED, effort
from tests.service.triggerer.cleaning_world import CleaningWorld, FolderPlace, cleaning_world

pytestmark = pytest.mark.service

CALLS = ("rename", "link", "unlink", "fsync", "rmdir")
"""The system calls of the cleaner that change anything."""
STEPS = ("_record", "_store")
FILES = 6


class Killed(BaseException):
    """The process is gone here."""


@dataclass(kw_only=True)
class Fate:
    """Kills before the step of this number, or right after it; and lets a writer act before another one."""

    kill_at: int
    after: bool
    write_at: int
    write: Callable[[], None]
    steps: int = 0
    acted: list[str] = field(default_factory=list)

    def before(self) -> None:
        if self.steps == self.write_at:
            self.write()
        if self.steps == self.kill_at and not self.after:
            self.steps += 1
            raise Killed

    def behind(self) -> None:
        self.steps += 1
        if self.steps - 1 == self.kill_at and self.after:
            raise Killed


@contextmanager
def fated(fate: Fate, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Count the system calls of the cleaner and its transactions as steps."""

    def stepped(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            if not more and original.__name__ != "fsync":  # others' calls have no folders
                return original(*arguments, **more)
            fate.before()
            result = original(*arguments, **more)
            fate.behind()
            return result

        return call

    def committed(original: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*arguments: Any, **more: Any) -> Any:
            fate.before()
            result = await original(*arguments, **more)
            fate.behind()
            return result

        return call

    with monkeypatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, stepped(getattr(os, name)))
        from watcher.features.clean_source.event_files import EventFilesCleaner  # noqa: PLC0415  patched here alone

        for name in STEPS:
            patch.setattr(EventFilesCleaner, name, committed(getattr(EventFilesCleaner, name)))
        yield


async def cleaned_until_killed(world: CleaningWorld) -> bool:
    """Clean. Return whether it was killed."""
    await world.look_again()
    try:
        while await world.cleaning.look():
            pass
    except Killed:
        return True
    except BaseExceptionGroup as group:
        if group.subgroup(Killed) is None:
            raise
        return True
    return False


@pytest.mark.parametrize("moves", [False, True], ids=["delete", "move"])
@pytest.mark.parametrize("case", range(effort(6, 100)))
async def test_a_kill_at_any_step_loses_nothing_and_leaves_nothing(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: int, moves: bool
) -> None:
    random = Random(SEED * 1000 + case * 2 + moves)
    place = FolderPlace.made(tmp_path)
    clean_source = {"move_to": place.done, "after": "0s"} if moves else {"delete": True, "after": "0s"}
    options = {"clean_source": clean_source, "mode": random.choice(["strict", "window"])}
    for number in range(FILES):
        place.write(f"{number}.csv", f"old {number}")
    written: list[int] = []

    def write() -> None:
        number = random.randrange(FILES)
        written.append(number)
        place.write(f"{number}.csv", f"new {number}")

    async with cleaning_world(database, place, **options) as world:
        await world.reported(1)
        await world.load("load")
        steps = 60 if moves else 45
        fate = Fate(
            kill_at=random.randrange(steps), after=random.random() < 0.5, write_at=random.randrange(steps), write=write
        )
        with fated(fate, monkeypatch):
            await cleaned_until_killed(world)
    async with cleaning_world(database, place, **options) as world:
        for _ in range(4):
            await world.clean()
        if written:
            await world.reported(2)
        assert {name.split("/")[-1] for name in place.names()} == {f"{number}.csv" for number in written}, fate
        assert all((tmp_path / "in" / f"{number}.csv").read_text() == f"new {number}" for number in written)
        if moves:
            expected = {f"{number}.csv": f"old {number}" for number in range(FILES)}
            moved = {name: (tmp_path / "done" / name).read_text() for name in place.names("done")}
            assert moved == {name: text for name, text in expected.items() if name in moved}
            assert expected.keys() - moved.keys() <= {f"{number}.csv" for number in written}
        await world.polled()
        assert "vanished" not in world.findings
        events = await world.rows(select(asset_event.c.extra).order_by(asset_event.c.id))
        first, *later = [json.loads(event.extra)["files"] for event in events]
        versions = [json.dumps(file) for files in (first, *later) for file in files]
        assert len(versions) == len({*versions}), "nothing is reported again"
        assert {Path(file["path"]).name for files in later for file in files} == {f"{n}.csv" for n in written}
        states = await world.rows(select(cleaning.c.state, cleaning.c.staying).order_by(cleaning.c.event_id))
        assert states[0].state == "done", (states, fate)
