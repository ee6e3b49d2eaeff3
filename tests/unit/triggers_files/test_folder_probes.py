"""Watchers of folders in which nothing changes share polls, and poll by themselves only after a change."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from tests.effort import PATIENCE
from tests.unit.triggers_files.dict_host import DictHost, RunningWatcher, polled_quietly, until
from triggers.base import TriggerContext
from triggers.errors import SourceUnavailable
from triggers.local_folder import probes
from triggers.local_folder.new_files import FileNewFiles, FileNewFilesOptions
from triggers.local_folder.probes import FolderProbes


class Watched(RunningWatcher[FileNewFiles]):
    @property
    def names(self) -> list[str]:
        return [Path(file["path"]).name for file in self.host.files]


@dataclass(kw_only=True)
class Crowd:
    probes: FolderProbes
    tasks: TaskGroup

    def watch(
        self,
        folder: Path,
        host: DictHost | None = None,
        *,
        poll_timeout: timedelta = timedelta(minutes=5),
        **options: Any,
    ) -> Watched:
        values = {"path": str(folder), "min_age": "0s", "interval": "5ms", "start": "all", **options}
        context = TriggerContext(watcher="w", poll_timeout=poll_timeout)
        trigger = FileNewFiles(FileNewFilesOptions.model_validate(values), self.probes, context)
        watched = Watched(trigger=trigger, host=host or DictHost())
        self.tasks.start_soon(watched.run)
        return watched


@asynccontextmanager
async def crowd() -> AsyncIterator[Crowd]:
    async with FileNewFiles.open_shared() as shared, anyio.create_task_group() as tasks:
        yield Crowd(probes=shared, tasks=tasks)
        tasks.cancel_scope.cancel()


def folders(root: Path, number: int) -> list[Path]:
    made = [root / f"{place}" for place in range(number)]
    for folder in made:
        folder.mkdir()
        (folder / "there").write_text("x")
    return made


async def test_one_job_checks_all_folders_and_only_watchers_of_changed_ones_poll(tmp_path: Path) -> None:
    places = folders(tmp_path, 20)
    async with crowd() as many:
        watchers = [many.watch(place, mode="window" if number % 2 else "strict") for number, place in enumerate(places)]
        await polled_quietly(*watchers)
        polls = [watcher.host.polls for watcher in watchers]
        (places[3] / "new").write_text("x")
        await until(lambda: watchers[3].names == ["there", "new"])
        await polled_quietly(*watchers)
        assert [watcher.host.polls - before for watcher, before in zip(watchers, polls, strict=True)] == [
            int(number == 3) for number in range(20)
        ]


async def test_every_change_that_makes_a_version_ends_the_rest(tmp_path: Path) -> None:
    (place,) = folders(tmp_path, 1)
    outside = tmp_path / "outside"
    outside.write_text("one")
    async with crowd() as many:
        watcher = many.watch(place)

        async def brings(change: Callable[[], Any], *names: str) -> None:
            await polled_quietly(watcher)
            before, polls = len(watcher.names), watcher.host.polls
            change()
            await until(lambda: watcher.host.polls > polls)
            assert watcher.names[before:] == [*names]

        await brings(lambda: (place / "there").write_text("y"), "there")
        await brings(lambda: os.utime(place / "there", (1, 1)), "there")
        await brings(lambda: (place / "link").symlink_to(outside), "link")
        await brings(lambda: outside.write_text("more"), "link")
        await brings(lambda: (place / "sub").mkdir() or (place / "sub/a").write_text("z"), "a")
        await brings(lambda: (place / "there").rename(place / "moved"), "moved")
        await brings((place / "moved").unlink)


async def test_a_young_file_is_emitted_although_nothing_changes_any_more(tmp_path: Path) -> None:
    (place,) = folders(tmp_path, 1)
    async with crowd() as many:
        watcher = many.watch(place, min_age="300ms")
        await until(lambda: watcher.names == ["there"])
        await polled_quietly(watcher)


async def test_a_scan_that_was_resumed_is_followed_by_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that it listed before it was killed may have been too young."""
    monkeypatch.setattr("triggers.local_folder.new_files.PAGE", 1)
    host = DictHost()
    for name in "abc":
        (tmp_path / name).touch()
    values = {"path": str(tmp_path), "min_age": "0s", "start": "all"}
    first = FileNewFiles(FileNewFilesOptions.model_validate(values), None, TriggerContext(watcher="w"))
    await host.run_until_commit(first, commits=1)
    monkeypatch.undo()
    os.utime(tmp_path / "a", (1, 1))
    async with crowd() as many:
        watcher = many.watch(tmp_path, host)
        await until(lambda: watcher.names == ["a", "b", "c", "a"])
        await polled_quietly(watcher)


async def test_a_folder_that_is_deleted_fails_its_watcher_alone(tmp_path: Path) -> None:
    places = folders(tmp_path, 3)
    async with crowd() as many:
        watchers = [many.watch(place) for place in places]
        await polled_quietly(*watchers)
        (places[1] / "there").unlink()
        places[1].rmdir()
        await until(lambda: watchers[1].error is not None)
        assert isinstance(watchers[1].error, SourceUnavailable)
        await polled_quietly(watchers[0], watchers[2])


async def test_a_folder_that_hangs_is_skipped_and_the_others_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "PATIENCE", 0.2)
    places, scandir, answers, asked = folders(tmp_path, 5), os.scandir, threading.Event(), threading.Event()
    answers.set()

    def slow(path: str) -> Any:
        if path == str(places[2]) and not answers.is_set():
            asked.set()
            answers.wait(PATIENCE)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", slow)
    async with crowd() as many:
        watchers = [many.watch(place) for place in places]
        await polled_quietly(*watchers)
        try:
            answers.clear()
            await until(asked.is_set)
            others = [watcher for number, watcher in enumerate(watchers) if number != 2]
            (places[4] / "new").touch()
            await until(lambda: watchers[4].names == ["there", "new"])
            await polled_quietly(*others)
        finally:
            answers.set()
        (places[2] / "new").touch()
        await until(lambda: watchers[2].names == ["there", "new"])


async def test_a_listing_that_hangs_fails_its_watcher_and_is_not_started_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, works = folders(tmp_path, 2)
    scandir, answers, asked = os.scandir, threading.Event(), []

    def slow(path: str) -> Any:
        if path == str(hangs):
            asked.append(path)
            answers.wait(PATIENCE)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", slow)
    monkeypatch.setattr(probes, "LISTINGS", 1)
    async with crowd() as many:
        try:
            for _ in range(3):
                watcher = many.watch(hangs, poll_timeout=timedelta(milliseconds=50))
                await until(lambda watcher=watcher: watcher.error is not None)
                assert "did not answer within 0.05 s" in str(watcher.error)
            assert len(asked) == 1
            await polled_quietly(many.watch(works))
        finally:
            answers.set()
        watcher = many.watch(hangs)
        await until(lambda: watcher.names == ["there"])


async def test_up_to_moves_with_the_shared_polls(tmp_path: Path) -> None:
    async with crowd() as many:
        watcher = many.watch(tmp_path)
        await polled_quietly(watcher)
        polls, before = watcher.host.polls, str(watcher.trigger.up_to)
        await polled_quietly(watcher)
        assert str(watcher.trigger.up_to) > before
        assert watcher.host.polls == polls


async def test_a_resting_watcher_still_polls_by_itself_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triggers.file_scan.trigger.SCAN_EVERY", 0.05)
    async with crowd() as many:
        watcher = many.watch(tmp_path)
        await until(lambda: watcher.host.polls >= 5)
