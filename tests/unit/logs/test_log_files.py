"""Records are appended to the files of what they are about."""

from __future__ import annotations

import json
import logging
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import structlog

from watcher.host import logs
from watcher.host.logs.configuration import LogFiles
from watcher.host.logs.paths import InvalidLogName, try_log, watcher_log, watcher_logs

IDENTITY = {
    "dag_id": "load",
    "run_id": "manual__2026-11-20T10:00:00+00:00",
    "task_id": "t",
    "map_index": -1,
    "try_number": 2,
}
log = structlog.get_logger()


def events(path: Path) -> list[str]:
    return [json.loads(line)["event"] for line in path.read_text().splitlines()]


def test_a_record_goes_to_the_file_of_its_subject(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with logs.configure(tmp_path, level="info", json=True, owner="me", max_file_mb=1):
        log.info("daemon.started")
        log.info("watcher.polled", watcher="w")
        log.debug("watcher.polled", watcher="w")
        with structlog.contextvars.bound_contextvars(**IDENTITY):
            log.info("run.submitted")
        log.info("run.created", dag_id="load", run_id="r")

    assert events(tmp_path / "watchers" / "w" / "me.log") == ["watcher.polled"]
    of_try = tmp_path / "runs" / "load" / IDENTITY["run_id"] / "t" / "-1" / "2.log"
    assert of_try == try_log(tmp_path, *IDENTITY.values())
    assert events(of_try) == ["run.submitted"]
    everything = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [record["event"] for record in everything] == [
        "daemon.started",
        "watcher.polled",
        "run.submitted",
        "run.created",
    ]
    assert list(everything[1]) == ["timestamp", "level", "event", "watcher"]


def test_a_record_that_cannot_be_written_to_its_file_still_reaches_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "watchers").touch()  # a file where the folder should be
    with logs.configure(tmp_path, level="info", json=True, owner="me", max_file_mb=1):
        log.info("watcher.polled", watcher="w")
        log.info("watcher.polled", watcher="../escape")
        log.info("odd", bytes=b"\xff", text="\ud800", number=float("nan"))

    first, second, third = map(json.loads, capsys.readouterr().err.splitlines())
    assert "not_kept" in first
    assert "cannot be part of a log file" in second["not_kept"]
    assert third["text"] == "\ud800"
    assert not (tmp_path.parent / "escape").exists()


def test_records_of_libraries_are_kept_and_an_error_keeps_its_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with logs.configure(tmp_path, level="info", json=True, owner="me", max_file_mb=1):
        with structlog.contextvars.bound_contextvars(watcher="w"):
            logging.getLogger("library").warning("slow %s", "query")
            logging.getLogger("library").info("chatter")
        log.error("failed", exc_info=ValueError("why"))

    warning, failed = map(json.loads, capsys.readouterr().err.splitlines())
    assert (warning["event"], warning["logger"], warning["level"]) == ("slow query", "library", "warning")
    assert events(tmp_path / "watchers" / "w" / "me.log") == ["slow query"]
    assert "ValueError: why" in failed["exception"]


def test_for_people_stderr_is_text_and_files_are_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with logs.configure(tmp_path, level="info", json=False, owner="me", max_file_mb=1):
        log.info("watcher.polled", watcher="w")
        log.error("loop.blocked", stack=["line 1", "line 2"])

    text = capsys.readouterr().err
    assert "watcher.polled" in text
    assert "line 1\nline 2\n" in text
    assert events(tmp_path / "watchers" / "w" / "me.log") == ["watcher.polled"]


def test_logging_is_restored_when_the_block_ends(tmp_path: Path) -> None:
    before = (structlog.get_config(), list(logging.getLogger().handlers), logging.getLogger().level)
    with logs.configure(tmp_path, level="info", json=True, owner="me", max_file_mb=1):
        pass

    assert (structlog.get_config(), list(logging.getLogger().handlers), logging.getLogger().level) == before


def test_a_full_file_is_rotated_and_no_record_is_lost(tmp_path: Path) -> None:
    files = LogFiles(max_bytes=100)
    path = watcher_log(tmp_path, "w", "me")
    for number in range(50):
        files.append(path, f"line {number}", rotate=True)
    files.append(path, "x" * 500, rotate=True)
    files.close()

    [of_me] = watcher_logs(tmp_path, "w")
    assert of_me[-1] == path
    assert len(of_me) > 3
    assert all(file.stat().st_size <= 100 for file in of_me[:-1])
    lines = "".join(file.read_text() for file in of_me).splitlines()
    assert lines == [*(f"line {number}" for number in range(50)), "x" * 500]


def test_logs_of_several_processes_are_kept_apart(tmp_path: Path) -> None:
    files = LogFiles(max_bytes=10)
    for owner in ("one", "two"):
        for number in range(3):
            files.append(watcher_log(tmp_path, "w", owner), f"{owner} {number}", rotate=True)
    files.close()

    found = watcher_logs(tmp_path, "w")
    assert [[file.read_text() for file in owner] for owner in found] == [
        [f"{owner} {number}\n" for number in range(3)] for owner in ("one", "two")
    ]
    assert watcher_logs(tmp_path, "unknown") == []


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_few_files_are_open_whatever_the_number_of_watchers(tmp_path: Path) -> None:
    files = LogFiles(max_bytes=1000, open_at_most=64)
    before = open_files()
    for _ in range(2):
        for number in range(300):
            files.append(tmp_path / f"{number}.log", "line", rotate=True)
    assert open_files() <= before + 64
    files.close()

    assert open_files() == before
    assert all((tmp_path / f"{number}.log").read_text() == "line\nline\n" for number in range(300))


def test_a_record_begins_on_a_line_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    files = LogFiles(max_bytes=10)
    path.write_text("half a line")
    files.append(path, "record", rotate=False)
    with path.open("a") as file:
        file.write("whole line\n")
    files.append(path, "record", rotate=False)
    files.close()

    assert path.read_text() == "half a line\nrecord\nwhole line\nrecord\n"


@pytest.mark.parametrize("rotate", [False, True])
def test_a_line_that_does_not_fit_on_the_disk_is_an_error_and_damages_no_other(tmp_path: Path, rotate: bool) -> None:
    path = tmp_path / "w.log"
    files = LogFiles(max_bytes=1000)
    files.append(path, "first", rotate=rotate)
    with largest_file(10), pytest.raises(OSError, match="No space left"):
        files.append(path, "second", rotate=rotate)
    files.append(path, "third", rotate=rotate)
    files.close()

    lines = path.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("first", "third")


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Limit the size of files for the block: a write then fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "/etc", "a\0b", "-x", ".x", "a b", "ü", "x" * 251, "a\n"]
)
def test_names_are_checked_before_they_become_paths(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidLogName):
        watcher_logs(tmp_path, name)
    with pytest.raises(InvalidLogName):
        watcher_log(tmp_path, "w", name)
    for place in range(3):
        parts = ["a", "b", "c"]
        parts[place] = name
        with pytest.raises(InvalidLogName):
            try_log(tmp_path, *parts, -1, 1)
