"""`file.new_files` over real folders."""

from __future__ import annotations

import os
import time
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.triggers_files.dict_host import DictHost
from triggers.base import TriggerContext
from triggers.errors import ConfigurationError, SourceUnavailable
from triggers.file_scan.matching import Matcher
from triggers.file_scan.trigger import UnnamedFile
from triggers.local_folder.folder import FolderFile, list_files
from triggers.local_folder.new_files import FileNewFiles, FileNewFilesOptions


def trigger(folder: Path, **options: Any) -> FileNewFiles:
    wanted = {"path": str(folder), "min_age": "0s", "interval": "1ms", **options}
    return FileNewFiles(FileNewFilesOptions.model_validate(wanted), None, TriggerContext(watcher="w"))


def write(path: Path, content: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def keys(folder: Path, *, match: str | None = None, regex: str | None = None) -> list[str]:
    return [file.key for file in list_files(str(folder), Matcher.of(match=match, regex=regex)).files]


def names(host: DictHost, folder: Path) -> list[str]:
    return [file["path"].removeprefix(f"{folder}/") for file in host.files]


@pytest.mark.parametrize("mode", ["strict", "window"])
async def test_each_file_comes_once_over_restarts(tmp_path: Path, mode: str) -> None:
    host = DictHost()
    write(tmp_path / "a.csv")
    await host.run(trigger(tmp_path, start="all", mode=mode), polls=3)
    write(tmp_path / "sub/b.csv")
    await host.run(trigger(tmp_path, start="all", mode=mode), polls=3)
    assert names(host, tmp_path) == ["a.csv", "sub/b.csv"]


async def test_a_start_at_now_emits_only_what_comes_later(tmp_path: Path) -> None:
    host = DictHost()
    old = write(tmp_path / "old")
    past = time.time() - 3600
    os.utime(old, (past, past))
    await _until_clock_passes(old)
    assert await host.run(trigger(tmp_path)) == []
    write(tmp_path / "new")
    await host.run(trigger(tmp_path))
    assert names(host, tmp_path) == ["new"]


@pytest.mark.parametrize("identity", ["inode", "path"])
@pytest.mark.parametrize("restarts", [False, True])
async def test_files_whose_mode_was_changed_come_back_from_a_lost_mount_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, identity: str, restarts: bool
) -> None:
    monkeypatch.setattr("triggers.file_scan.scanner.QUIET_COMMIT_SECONDS", 0.0 if restarts else 60.0)
    host, folder, mount = DictHost(), tmp_path / "in", tmp_path / "mount"
    files = [write(folder / f"{number}.csv") for number in range(30)]
    watched = trigger(folder, start="all", identity=identity)
    batches = watched.events(None)

    async def poll() -> None:
        nonlocal batches
        if restarts:
            await batches.aclose()
            batches = watched.events(host.stored)
        async for batch in batches:
            if batch.position is None:
                break
            host.commit(batch.position, batch.events)

    await poll()
    await _until_clock_passes(files[-1])
    for file in files:
        file.chmod(0o600)
    await poll()
    folder.rename(mount)
    folder.mkdir()
    await poll()
    folder.rmdir()
    mount.rename(folder)
    await poll()
    await batches.aclose()
    assert len(host.files) == 30


async def test_in_mode_window_a_young_file_whose_mode_was_changed_is_not_reported_again(tmp_path: Path) -> None:
    host, file = DictHost(), write(tmp_path / "a")
    watched = trigger(tmp_path, start="all", mode="window", lateness="1s", interval="200ms")
    async with aclosing(watched.events(None)) as batches:
        polls = 0
        async for batch in batches:
            if batch.position is not None:
                host.commit(batch.position, batch.events)
                continue
            polls += 1
            if polls == 4:
                file.chmod(0o600)
            if polls == 25:  # after the lateness since it was written, and the second for which listings round
                break
    assert names(host, tmp_path) == ["a"]


async def test_a_written_file_is_a_new_version_and_a_touched_mode_is_not(tmp_path: Path) -> None:
    host = DictHost()
    file = write(tmp_path / "a", "one")
    await host.run(trigger(tmp_path, start="all"))
    file.chmod(0o600)
    await host.run(trigger(tmp_path))
    assert names(host, tmp_path) == ["a"]
    write(file, "more")
    await host.run(trigger(tmp_path))
    assert [shown["size"] for shown in host.files] == [3, 4]


async def test_a_moved_file_is_new_although_it_keeps_its_time(tmp_path: Path) -> None:
    host = DictHost()
    outside = write(tmp_path / "outside/a")
    os.utime(outside, (1, 1))
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    await host.run(trigger(inbox, mode="window"))
    outside.rename(inbox / "a")
    await host.run(trigger(inbox, mode="window"))
    named = {"path": f"{inbox}/a", "size": 1, "last_modified": "1970-01-01T00:00:01Z"}
    assert host.files == [{**named, "inode": (inbox / "a").stat().st_ino}]


@pytest.mark.parametrize("mode", ["strict", "window"])
async def test_a_marker_is_reported_after_all_else_in_an_event_of_its_own(tmp_path: Path, mode: str) -> None:
    host = DictHost()
    options: dict[str, Any] = {"start": "all", "mode": mode, "last": ["**/_SUCCESS"]}
    for name in ("a/_SUCCESS", "a/part", "z"):
        write(tmp_path / name)
    watched = trigger(tmp_path, **options)
    await host.run(watched)
    assert names(host, tmp_path) == ["a/part", "z"]
    explained = await watched.explain("a/_SUCCESS", host.stored)
    assert (explained.state, explained.facts["reason"]) == ("waiting", "last")
    write(tmp_path / "b")  # after the marker was listed, and before the scan that follows
    await host.run(trigger(tmp_path, **options), polls=2)
    assert [event.count for event in host.events] == [2, 1, 1]
    assert names(host, tmp_path)[2:] == ["b", "a/_SUCCESS"]
    await host.run(trigger(tmp_path, **options), polls=3)
    assert len(host.events) == 3


@pytest.mark.parametrize("match", ["**/*.csv", "part-*", "**/*_DONE"])
def test_what_is_reported_last_must_be_selected(tmp_path: Path, match: str) -> None:
    with pytest.raises(ValidationError, match="selects nothing that `last: \\*\\*/_SUCCESS` matches; write a `regex`"):
        trigger(tmp_path, match=match, last=["**/_SUCCESS"])
    trigger(tmp_path, regex=r"(\.csv|/_SUCCESS)$", last=["**/_SUCCESS"])


async def test_a_young_file_waits(tmp_path: Path) -> None:
    host = DictHost()
    write(tmp_path / "a")
    assert await host.run(trigger(tmp_path, start="all", min_age="1h")) == []
    assert len(await host.run(trigger(tmp_path, start="all"))) == 1


async def test_events_are_split_but_committed_together(tmp_path: Path) -> None:
    host = DictHost()
    for number in range(5):
        write(tmp_path / f"{number}")
    events = await host.run(trigger(tmp_path, start="all", batch={"max_files": 2}))
    assert [event.count for event in events] == [2, 2, 1]
    assert host.commits == 1
    assert names(host, tmp_path) == ["0", "1", "2", "3", "4"]


async def test_a_scan_goes_on_where_it_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triggers.local_folder.new_files.PAGE", 2)
    host = DictHost()
    for number in range(7):
        write(tmp_path / f"{number}")
    await host.run_until_commit(trigger(tmp_path, start="all"), commits=2)
    assert names(host, tmp_path) == ["0", "1", "2", "3"]
    await host.run(trigger(tmp_path, start="all"), polls=2)
    assert names(host, tmp_path) == ["0", "1", "2", "3", "4", "5", "6"]


def test_a_glob_enters_no_folder_deeper_than_it_can_match(tmp_path: Path) -> None:
    for name in ("a.csv", "x/b.csv", "x/y/c.csv", "x/y/c.txt", "z/d.csv"):
        write(tmp_path / name)
    assert keys(tmp_path, match="*.csv") == ["a.csv"]
    assert keys(tmp_path, match="*/*.csv") == ["x/b.csv", "z/d.csv"]
    assert keys(tmp_path, match="**/*.csv") == ["a.csv", "x/b.csv", "x/y/c.csv", "z/d.csv"]
    assert keys(tmp_path, match="x/**") == ["x/b.csv", "x/y/c.csv", "x/y/c.txt"]
    assert keys(tmp_path, match="x/y/c.csv") == ["x/y/c.csv"]
    assert keys(tmp_path, match="missing/*") == []
    assert keys(tmp_path, regex=r"c\.") == ["x/y/c.csv", "x/y/c.txt"]


def test_folders_that_the_glob_cannot_reach_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.csv", "x/b.csv", "wanted/c.csv"):
        write(tmp_path / name)
    opened: list[str] = []
    scandir = os.scandir

    def watched(path: str) -> Any:
        opened.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", watched)
    keys(tmp_path, match="*.csv")
    keys(tmp_path, match="wanted/**")
    assert opened == [str(tmp_path), f"{tmp_path}/wanted"]


def test_links_are_followed_but_never_in_circles(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    write(inbox / "sub/a")
    write(tmp_path / "elsewhere/b")
    (inbox / "loop").symlink_to(inbox)
    (inbox / "sub/up").symlink_to(inbox / "sub")
    (inbox / "self").symlink_to(inbox / "self")
    (inbox / "gone").symlink_to(tmp_path / "nothing")
    (inbox / "other").symlink_to(tmp_path / "elsewhere")
    found = keys(inbox)
    assert {"sub/a", "other/b"} <= set(found)
    assert len(found) < 12


@pytest.mark.parametrize("target", ["a/behind a file", "n" * 300, "nothing", "link"])
def test_watchers_of_folders_skip_dangling_links(tmp_path: Path, target: str) -> None:
    write(tmp_path / "a")
    (tmp_path / "link").symlink_to(target)
    assert keys(tmp_path) == ["a"]


@pytest.mark.parametrize("below", ["", "in/"])
def test_a_link_to_the_folder_where_the_walk_begins_is_not_entered(tmp_path: Path, below: str) -> None:
    write(tmp_path / f"{below}a")
    (tmp_path / f"{below}loop").symlink_to(tmp_path / below)
    assert keys(tmp_path, match=f"{below}**") == [f"{below}a"]


def test_only_regular_files_count(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    write(tmp_path / "file")
    assert keys(tmp_path) == ["file"]


def test_a_name_that_is_not_utf8_is_shown_in_a_readable_form(tmp_path: Path) -> None:
    name = os.path.join(os.fsencode(tmp_path), b"odd\xff")  # noqa: PTH118
    with open(name, "wb"):  # noqa: PTH123
        pass
    (file,) = list_files(str(tmp_path), Matcher()).files
    assert file.key == "odd\\xff"
    assert file.describe()["path"] == f"{tmp_path}/odd\\xff"


async def test_a_missing_folder_does_not_count_as_empty(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="cannot be listed"):
        await trigger(tmp_path / "missing").check()


async def test_a_file_instead_of_a_folder_is_an_error_with_its_remedy(tmp_path: Path) -> None:
    (finding,) = await trigger(write(tmp_path / "file")).check()
    assert (finding.level, finding.remedy) == ("error", "correct the watcher's path")


def test_an_unreadable_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests may run as root, whom no mode keeps out: here the system call refuses."""
    write(tmp_path / "locked/a")

    def refuse(path: str) -> Any:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(ConfigurationError, match="read permission"):
        keys(tmp_path)


async def test_a_readable_folder_is_found_ok(tmp_path: Path) -> None:
    write(tmp_path / "a")
    (finding,) = await trigger(tmp_path).check()
    assert (finding.level, finding.message) == ("ok", f"'{tmp_path}' is listed: 1 matching files")


def test_the_defaults_are_those_of_a_poll_every_few_seconds(tmp_path: Path) -> None:
    options = FileNewFilesOptions.model_validate(FileNewFiles.defaults(f"file://{tmp_path}/with%20space"))
    assert options.path == f"{tmp_path}/with space"
    assert (options.mode, options.min_age.total_seconds(), options.interval.total_seconds()) == ("strict", 2, 2)
    assert FileNewFiles.defaults("s3://bucket/prefix") == {}


def test_a_relative_path_is_refused() -> None:
    with pytest.raises(ValidationError, match="absolute"):
        FileNewFilesOptions(path="inbox")


def test_the_identity_names_the_source(tmp_path: Path) -> None:
    assert trigger(tmp_path, match="*.csv").source_identity() == {
        "trigger": "file.new_files",
        "path": str(tmp_path),
        "match": "*.csv",
        "regex": None,
        "min_size": 0,
    }


async def _until_clock_passes(file: Path) -> None:
    """`start: now` counts what was changed within the last clock tick as new."""
    changed = file.stat().st_ctime_ns
    while time.time_ns() < changed + 30_000_000:
        pass


async def test_on_request_a_name_that_is_not_text_stops_the_watcher_at_that_file(tmp_path: Path) -> None:
    host = DictHost()
    watched = {"start": "all", "min_age": "0s", "mode": "strict", "on_bad_row": "stop"}
    write(tmp_path / "a")
    odd = write_odd(tmp_path)
    write(tmp_path / "z")
    for _ in range(2):
        with pytest.raises(
            UnnamedFile, match=r"no event can name the file m\\xff: its name holds bytes that are not UTF-8"
        ):
            await host.run(trigger(tmp_path, **watched))
    assert names(host, tmp_path) == ["a"]
    os.rename(odd, tmp_path / "n")  # noqa: PTH104
    await host.run(trigger(tmp_path, **watched))
    assert names(host, tmp_path) == ["a", "n", "z"]


async def test_a_name_that_is_not_text_is_rejected_and_settled_once_the_file_is_gone(tmp_path: Path) -> None:
    host = DictHost()
    watched = {"start": "all", "min_age": "0s", "mode": "strict"}
    write(tmp_path / "a")
    odd = write_odd(tmp_path)
    await host.run(trigger(tmp_path, **watched))
    assert (names(host, tmp_path), [item.key for item in host.rejected]) == (["a"], ["m\\xff"])
    assert [dict(event.payload).get("rejected") for event in host.events] == [["m\\xff"]]
    host.retried = True
    await host.run(trigger(tmp_path, **watched))
    assert [item.key for item in host.rejected] == ["m\\xff"]
    os.remove(odd)  # noqa: PTH107
    host.retried = True
    await host.run(trigger(tmp_path, **watched))
    assert (names(host, tmp_path), host.rejected) == (["a"], [])


async def test_a_position_that_stopped_at_a_name_goes_on_behind_it(tmp_path: Path) -> None:
    host = DictHost()
    for name in ("a", "z"):
        write(tmp_path / name)
    write_odd(tmp_path)
    with pytest.raises(UnnamedFile):
        await host.run(trigger(tmp_path, start="all", on_bad_row="stop"))
    await host.run(trigger(tmp_path, start="all"))
    assert (names(host, tmp_path), [item.key for item in host.rejected]) == (["a", "z"], ["m\\xff"])


async def test_names_that_are_not_text_never_stop_the_watcher_however_many_they_are(tmp_path: Path) -> None:
    host = DictHost()
    for number in range(150):
        Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), b"Z\xfcrich%03d" % number))).write_bytes(b"1")  # noqa: PTH118
    await host.run(trigger(tmp_path, start="all", min_age="0s"))
    assert (host.files, len(host.rejected)) == ([], 150)
    write(tmp_path / "z")
    await host.run(trigger(tmp_path, start="all", min_age="0s"))
    assert (names(host, tmp_path), len(host.rejected)) == (["z"], 150)


async def test_every_name_in_utf_8_is_reported_as_it_is(tmp_path: Path) -> None:
    odd = [
        *(
            "2026-01-01T10:00:00.csv",
            "a*b",
            "[x]?",
            "{a,b}",
            ".hidden",
            "_started",
            "line\nbreak",
            "end\n",
            "cr\r",
            "tab\t",
        ),
        *(
            " blanks ",
            "-rf",
            "#1",
            "50%",
            "%41",
            "a+b",
            "back\\slash",
            "\\xff",
            "quote'\"",
            "$HOME",
            "Zürich",
            "Zu\u0308rich",
        ),
        *("שלום", "日本", "😀", "\uffff", "\u202e", "\x01", "\x7f", "..."),
    ]
    for name in odd:
        (tmp_path / name).write_bytes(b"1")
    for options in ({}, {"match": "*"}, {"regex": "^"}):
        host = DictHost()
        await host.run(trigger(tmp_path, start="all", min_age="0s", **options))
        assert (sorted(names(host, tmp_path)), host.rejected) == (sorted(odd), [])


@pytest.mark.parametrize(
    "written_ns", [1, 999, 1_000, 1_700_000_000_123_456_789, 1_700_000_000_000_001_000, -1, -1_500]
)
async def test_an_event_has_the_inode_and_the_time_to_the_microsecond(tmp_path: Path, written_ns: int) -> None:
    host, file = DictHost(), write(tmp_path / "a")
    os.utime(file, ns=(written_ns, written_ns))
    with file.open("rb") as opened:
        status = os.fstat(opened.fileno())
    await host.run(trigger(tmp_path, start="all", min_age="0s"))
    [named] = host.files
    since_1970 = datetime.fromisoformat(str(named["last_modified"])) - datetime(1970, 1, 1, tzinfo=UTC)
    assert since_1970 // timedelta(microseconds=1) == status.st_mtime_ns // 1000
    assert named["inode"] == status.st_ino


@pytest.mark.parametrize(
    ("seconds", "can_be_told"),
    [(0, True), (-62135596800, True), (253402300799, True), (-62135596801, False), (1.7e12, False)],
)
def test_a_file_with_a_time_outside_the_calendar_stops_the_watcher(seconds: float, can_be_told: bool) -> None:
    """Some file systems keep whatever a program sets, such as milliseconds instead of seconds."""
    file = FolderFile(key="a", path="in/a", inode=1, size=1, written_ns=int(seconds) * 10**9, modified=0)
    if can_be_told:
        assert file.fault is None
        assert file.describe()["last_modified"]
    else:
        assert file.fault is not None
        assert "`touch` mends" in file.fault


async def test_a_file_written_outside_the_calendar_is_named_and_emitted_once_that_is_corrected(tmp_path: Path) -> None:
    host = DictHost()
    write(tmp_path / "a")
    odd = write(tmp_path / "m")
    os.utime(odd, (1.7e12, 1.7e12))
    if odd.stat().st_mtime < 1.7e12:
        pytest.skip("the file system keeps no such time")
    with pytest.raises(UnnamedFile, match="no event can name the file m: its time of writing lies outside"):
        await host.run(trigger(tmp_path, start="all", on_bad_row="stop"))
    assert names(host, tmp_path) == ["a"]
    odd.touch()
    await host.run(trigger(tmp_path, start="all", on_bad_row="stop"))
    assert names(host, tmp_path) == ["a", "m"]


def write_odd(folder: Path) -> bytes:
    name = os.path.join(os.fsencode(folder), b"m\xff")  # noqa: PTH118
    with open(name, "wb"):  # noqa: PTH123
        pass
    return name
