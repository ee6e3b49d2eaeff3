"""The cleaner of a local folder: exactly what was loaded goes, whatever is written over it meanwhile."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.triggers_files.dict_host import DictHost
from triggers.base import TriggerContext
from triggers.cleaning import LoadedFile, SourceCleaner
from triggers.errors import SourceUnavailable
from triggers.local_folder.folder import ASIDE
from triggers.local_folder.new_files import FileNewFiles, FileNewFilesOptions

DELETE = {"delete": True, "after": "0s"}


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "done").mkdir()
    return tmp_path / "in"


def trigger(folder: Path, clean_source: Any = DELETE, **options: Any) -> FileNewFiles:
    wanted = {"path": str(folder), "min_age": "0s", "interval": "1ms", "start": "all", "clean_source": clean_source}
    return FileNewFiles(FileNewFilesOptions.model_validate({**wanted, **options}), None, TriggerContext(watcher="w"))


def mover(folder: Path) -> FileNewFiles:
    return trigger(folder, {"move_to": str(folder.parent / "done"), "after": "0s"})


def cleaner_of(watcher: FileNewFiles) -> SourceCleaner:
    cleaner = watcher.cleaner()
    assert cleaner is not None
    return cleaner


async def loaded(watcher: FileNewFiles, host: DictHost | None = None) -> list[LoadedFile]:
    """Report what is there, and return it as the host has it."""
    host = host or DictHost()
    await host.run(watcher, polls=2)
    return [LoadedFile(ticket=f"t{number}", content=content) for number, content in enumerate(host.files)]


def all_below(folder: Path) -> dict[str, str]:
    """The files and folders below a folder, with the contents of files."""
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else "" for path in sorted(folder.rglob("*"))
    }


async def test_a_loaded_file_is_found_and_removed(inbox: Path) -> None:
    (inbox / "sub").mkdir()
    (inbox / "sub/a.csv").write_text("a")
    (inbox / "b.csv").write_text("b")
    watcher = trigger(inbox)
    cleaner, files = cleaner_of(watcher), await loaded(watcher)
    assert [each.outcome for each in await cleaner.find(files)] == ["done", "done"]
    assert await cleaner.remove(files) == ["done", "done"]
    assert all_below(inbox) == {"sub": ""}
    assert [each.outcome for each in await cleaner.find(files)] == ["gone", "gone"]
    assert await cleaner.remove(files) == ["done", "done"]


@pytest.mark.parametrize("change", ["content", "size", "time", "replaced"])
async def test_what_was_written_over_a_loaded_file_stays(inbox: Path, change: str) -> None:
    path = inbox / "a.csv"
    path.write_text("old")
    watcher = trigger(inbox)
    cleaner, files = cleaner_of(watcher), await loaded(watcher)
    before = path.stat()
    if change == "content":
        path.write_text("new")
    elif change == "size":
        path.write_text("newer")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif change == "time":
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000))
    else:
        (inbox / "b").write_text("new")
        os.utime(inbox / "b", ns=(before.st_atime_ns, before.st_mtime_ns))
        (inbox / "b").rename(path)
    content = path.read_text()
    assert [each.outcome for each in await cleaner.find(files)] == ["gone"]
    assert await cleaner.remove(files) == ["done"]
    assert all_below(inbox) == {"a.csv": content}


@contextmanager
def before_call(function: str, act: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Act once, right before a system call of the cleaner."""
    original = getattr(os, function)
    acted = []

    def call(*arguments: Any, **more: Any) -> Any:
        if not acted:
            acted.append(True)
            act()
        return original(*arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, function, call)
        yield


async def test_a_file_that_replaces_the_loaded_one_in_the_last_moment_is_put_back(
    inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = inbox / "a.csv"
    path.write_text("old")
    watcher = trigger(inbox)
    cleaner, files = cleaner_of(watcher), await loaded(watcher)
    (inbox.parent / "next").write_text("new")
    with before_call("rename", lambda: (inbox.parent / "next").replace(path), monkeypatch):
        assert await cleaner.remove(files) == ["done"]
    assert all_below(inbox) == {"a.csv": "new"}


async def test_what_cannot_be_put_back_is_kept_beside_the_newer_file(
    inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = inbox / "a.csv"
    path.write_text("old")
    watcher = trigger(inbox)
    cleaner, files = cleaner_of(watcher), await loaded(watcher)
    (inbox.parent / "next").write_text("new")
    with (
        before_call("rename", lambda: (inbox.parent / "next").replace(path), monkeypatch),
        before_call("link", lambda: path.write_text("newest") and None, monkeypatch),
    ):
        assert await cleaner.remove(files) == ["refused"]
    assert all_below(inbox) == {ASIDE: "", f"{ASIDE}/t0": "new", "a.csv": "newest"}
    path.unlink()
    assert await cleaner.remove(files) == ["done"]
    assert all_below(inbox) == {"a.csv": "new"}


async def test_a_removal_that_was_killed_in_the_middle_is_finished_and_nothing_is_reported(inbox: Path) -> None:
    (inbox / "a.csv").write_text("a")
    watcher, host = trigger(inbox), DictHost()
    cleaner, files = cleaner_of(watcher), await loaded(watcher, host)
    (inbox / ASIDE).mkdir()
    (inbox / "a.csv").rename(inbox / ASIDE / "t0")
    assert await host.run(trigger(inbox), polls=2) == []
    assert await cleaner.remove(files, begin=False) == ["done"]
    assert all_below(inbox) == {}


async def test_what_a_kill_left_under_two_names_is_put_back(inbox: Path) -> None:
    """The kill came after the newer file had its name again, and before it lost the one beside it."""
    path = inbox / "a.csv"
    path.write_text("old")
    watcher = trigger(inbox)
    cleaner, files = cleaner_of(watcher), await loaded(watcher)
    path.unlink()
    path.write_text("newer")
    (inbox / ASIDE).mkdir()
    (inbox / ASIDE / "t0").hardlink_to(path)
    assert await cleaner.remove(files, begin=False) == ["done"]
    assert all_below(inbox) == {"a.csv": "newer"}


async def test_a_removal_that_was_not_begun_is_not_begun_any_more(inbox: Path) -> None:
    (inbox / "a.csv").write_text("a")
    watcher = trigger(inbox)
    cleaner, files = cleaner_of(watcher), await loaded(watcher)
    assert await cleaner.remove(files, begin=False) == ["refused"]
    assert all_below(inbox) == {"a.csv": "a"}


async def test_a_link_in_the_way_leads_nowhere(inbox: Path) -> None:
    (inbox / "sub").mkdir()
    (inbox / "sub/a.csv").write_text("a")
    watcher = trigger(inbox)
    cleaner, files = cleaner_of(watcher), await loaded(watcher)
    elsewhere = inbox.parent / "elsewhere"
    (inbox / "sub").rename(elsewhere)
    (inbox / "sub").symlink_to(elsewhere)
    assert [each.outcome for each in await cleaner.find(files)] == ["linked"]
    assert await cleaner.remove(files) == ["linked"]
    assert (elsewhere / "a.csv").read_text() == "a"


async def test_a_folder_that_is_not_there_says_nothing_about_its_files(inbox: Path) -> None:
    (inbox / "a.csv").write_text("a")
    watcher = trigger(inbox)
    cleaner, files = cleaner_of(watcher), await loaded(watcher)
    place = await cleaner.place()
    inbox.rename(inbox.parent / "away")
    for step in (cleaner.find, cleaner.copy, cleaner.remove):
        with pytest.raises(SourceUnavailable, match="cannot be cleaned"):
            await step(files)  # type: ignore[operator]
    inbox.mkdir()
    assert await cleaner.place() != place


async def test_a_file_is_moved_with_its_path_time_and_mode(inbox: Path) -> None:
    (inbox / "x/y").mkdir(parents=True)
    path = inbox / "x/y/a.csv"
    path.write_text("a" * 3_000_000)
    path.chmod(0o640)
    before = path.stat()
    watcher = mover(inbox)
    cleaner, files = cleaner_of(watcher), await loaded(watcher)
    assert await cleaner.copy(files) == ["done"]
    assert path.exists()
    assert await cleaner.copy(files) == ["done"]
    assert await cleaner.remove(files) == ["done"]
    moved = inbox.parent / "done/x/y/a.csv"
    content = files[0].content
    here = {"path": str(moved), "inode": moved.stat().st_ino, "moved_from": str(path)}
    [place] = await cleaner.find_copies(files)
    assert place == {"size": content["size"], "last_modified": content["last_modified"], **here}
    assert moved.read_text() == "a" * 3_000_000
    assert (moved.stat().st_mtime_ns, moved.stat().st_mode) == (before.st_mtime_ns, before.st_mode)
    assert all_below(inbox) == {"x": "", "x/y": ""}
    assert [*all_below(inbox.parent / "done")] == ["x", "x/y", "x/y/a.csv"]


async def test_another_file_at_the_target_is_not_overwritten(inbox: Path) -> None:
    (inbox / "a.csv").write_text("a")
    (inbox.parent / "done/a.csv").write_text("other")
    watcher = mover(inbox)
    cleaner, files = cleaner_of(watcher), await loaded(watcher)
    assert await cleaner.copy(files) == ["exists"]
    assert await cleaner.find_copies(files) == [None]
    assert (inbox.parent / "done/a.csv").read_text() == "other"
    assert (inbox / "a.csv").read_text() == "a"


async def test_the_check_says_that_jobs_need_to_read_the_target(inbox: Path) -> None:
    def of_target(findings: Any) -> list[str]:
        return [finding.level for finding in findings if finding.check == "move_to"]

    assert of_target(await mover(inbox).check()) == ["ok"]
    assert of_target(await trigger(inbox).check()) == []
    (inbox.parent / "done").rmdir()
    assert of_target(await mover(inbox).check()) == ["warning"]


async def test_what_a_killed_copy_left_is_written_anew(inbox: Path) -> None:
    (inbox / "a.csv").write_text("whole")
    (inbox.parent / "done/.t0").write_text("wh")
    watcher = mover(inbox)
    cleaner, files = cleaner_of(watcher), await loaded(watcher)
    assert await cleaner.copy(files) == ["done"]
    assert all_below(inbox.parent / "done") == {"a.csv": "whole"}


async def test_a_file_that_is_written_while_it_is_copied_is_not_copied(
    inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = inbox / "a.csv"
    path.write_text("a")
    watcher = mover(inbox)
    cleaner, files = cleaner_of(watcher), await loaded(watcher)
    with before_call("utime", lambda: path.write_text("b") and None, monkeypatch):
        assert await cleaner.copy(files) == ["gone"]
    assert all_below(inbox.parent / "done") == {}


async def test_a_missing_target_is_no_reason_to_remove_anything(inbox: Path) -> None:
    (inbox / "a.csv").write_text("a")
    (inbox.parent / "done").rmdir()
    (inbox.parent / "done2").mkdir()
    watcher = mover(inbox)
    cleaner, files = cleaner_of(watcher), await loaded(watcher)
    assert await cleaner.copy(files) == ["refused"]


async def test_a_file_system_without_hard_links_is_served(inbox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: Any, **_more: Any) -> None:
        raise OSError(errno.EPERM, "no links here")

    path = inbox / "a.csv"
    path.write_text("a")
    (inbox.parent / "next").write_text("new")
    watcher = mover(inbox)
    cleaner, files = cleaner_of(watcher), await loaded(watcher)
    monkeypatch.setattr(os, "link", refuse)
    assert await cleaner.copy(files) == ["done"]
    with before_call("rename", lambda: (inbox.parent / "next").replace(path), monkeypatch):
        assert await cleaner.remove(files) == ["done"]
    assert all_below(inbox) == {"a.csv": "new"}


async def test_missing_rights_are_an_outcome(inbox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: Any, **_more: Any) -> None:
        raise PermissionError

    (inbox / "a.csv").write_text("a")
    watcher = trigger(inbox)
    cleaner, files = cleaner_of(watcher), await loaded(watcher)
    monkeypatch.setattr(os, "rename", refuse)
    assert await cleaner.remove(files) == ["denied"]


@pytest.mark.parametrize("identity", ["inode", "path"])
@pytest.mark.parametrize("mode", ["strict", "window"])
async def test_what_was_removed_on_purpose_is_forgotten_and_no_mass_vanished(
    inbox: Path, mode: str, identity: str
) -> None:
    for number in range(40):
        (inbox / f"{number}.csv").write_text("x")
    options = {"mode": mode, "identity": identity, "lateness": "1h", "clean_source": DELETE}
    watcher, host = trigger(inbox, **options), DictHost()
    cleaner, files = cleaner_of(watcher), await loaded(watcher, host)
    names = [name for each in await cleaner.find(files) for name in each.names]
    assert {*names} >= host.rows.keys()
    seen = []
    events = watcher.events(host.stored)
    cleaner.note(names, "begun")
    for stage in ("removed", "done", "next"):
        if stage == "removed":
            await cleaner.remove(files)
        if stage == "done":
            cleaner.note(names, "done")
        async for batch in events:
            assert not batch.events
            if batch.position is None:
                seen += [finding.check for finding in batch.findings or ()]
                break
    await events.aclose()
    assert "vanished" not in seen
    assert watcher._scanner is not None
    assert len(watcher._scanner._handled) == 0


async def test_a_removal_that_was_given_up_is_missed_like_any_other(inbox: Path) -> None:
    for number in range(40):
        (inbox / f"{number}.csv").write_text("x")
    watcher, host = trigger(inbox), DictHost()
    cleaner, files = cleaner_of(watcher), await loaded(watcher, host)
    names = [name for each in await cleaner.find(files) for name in each.names]
    cleaner.note(names, "begun")
    cleaner.note(names, "given_up")
    for path in inbox.iterdir():
        path.unlink()
    async for batch in watcher.events(host.stored):
        if batch.position is None:
            assert [finding.check for finding in batch.findings or ()] == ["vanished"]
            break


@pytest.mark.parametrize(
    ("clean_source", "sentence"),
    [
        ({"delete": True, "move_to": "/done"}, "write either delete: true or move_to"),
        ({"after": "1d"}, "write either delete: true or move_to"),
        ({"delete": False}, "Input should be True"),
        ({"move_to": "s3://bucket/done/"}, "move_to must be a folder"),
        ({"move_to": "done"}, "move_to must be absolute"),
        ({"move_to": "/data/in"}, "must lie outside the watched folder"),
        ({"move_to": "/data/in/done"}, "must lie outside the watched folder"),
        ({"move_to": "file:///data"}, "must lie outside the watched folder, and not above it"),
    ],
)
def test_what_cannot_be_meant_is_refused(clean_source: Any, sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        FileNewFilesOptions.model_validate({"path": "/data/in", "clean_source": clean_source})


def test_a_target_beside_the_folder_is_accepted() -> None:
    options = FileNewFilesOptions.model_validate(
        {"path": "/data/in", "clean_source": {"move_to": "file:///data/in%20done/"}}
    )
    assert options.clean_source is not None
    assert options.clean_source.move_to == "/data/in done"
