#!/usr/bin/env python3
"""Count the functions and files on the way of an event through a running daemon: `tools/ways.py`, `--names`, `--json`.

The daemon runs in this process, with SQLite, a watcher of a folder, a watcher of a table, a job, and no option of a feature.
Each way is what its tasks, and the threads that they use, call from a cause until a while after its commit:

- a new file, a new row: from the poll that finds it to the commit of its event;
- a posted event: its request, and what stores it;
- a plan: the scheduler makes a run of a queued event;
- a try's start: the dispatcher commits the intent, starts a stand-in of spark-submit, and commits the handle.

A function counts once, however often it is called, and belongs to the room of its file (`tools/rooms.py`). Comprehensions and
lambdas belong to the function that they are in. A way's configuration names some features: the trigger of its watcher, the API
and its limits for a request, spark-submit for a try. Functions of any other feature are *not configured*; there should be none.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import signal
import sqlite3
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import anyio
import asyncpg
import httpx
import sqlalchemy.event

REPOSITORY: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tools")]

from rooms import KERNEL, PACKAGES, ROOT, SHARED, room_of  # noqa: E402  only now are these found

from watcher import app  # noqa: E402
from watcher.cli.commands import load_configuration  # noqa: E402
from watcher.configuration.foreign_classes import ForeignProcesses, open_processes  # noqa: E402
from watcher.shared.servers import free_port, running_postgres  # noqa: E402

PRODUCT: Final = tuple(f"{REPOSITORY}/{package}/" for package in PACKAGES)
SETTLE: Final = 3.0
"""Seconds for the daemon to do what it does once, before a way is watched."""
AFTERWARDS: Final = 2.0
"""Seconds for which a way is watched after its commit was seen."""
PATIENCE: Final = 60.0
CONFIGURATION: Final = """
version: 1
settings: {{home: home, api: {{port: {port}, auth: none}}}}
connections:
  source: {{type: postgres, dsn: "{source}"}}
assets:
  files: {{watchers: {{of_files: {{trigger: file.new_files, path: "{folder}/landing", interval: 1s}}}}}}
  rows: {{watchers: {{of_rows: {{trigger: postgres.new_rows, connection: source, table: orders, interval: 1500ms}}}}}}
  posted: {{}}
  planned: {{}}
jobs:
  load: {{schedule: planned, spark: {{application: job.py, env: {{SPARK_HOME: "{folder}/spark"}}}}}}
"""
TABLE: Final = "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text)"
SPARK_SUBMIT: Final = "#!/bin/sh\nexec sleep 600\n"
"""A driver that does nothing, so that no try ends while its start is watched."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way: the pattern of the names of its tasks, and the features that its configuration names."""

    title: str
    tasks: re.Pattern[str]
    features: frozenset[str]


FILE: Final = Way(
    title="a new file",
    tasks=re.compile(r"watcher of_files|listing of .*|shared polls of 1\.0"),
    features=frozenset({"files", "folder"}),
)
ROW: Final = Way(
    title="a new row",
    tasks=re.compile(r"watcher of_rows|shared polls of 1\.5"),
    features=frozenset({"rows"}),
)
POST: Final = Way(title="a posted event", tasks=re.compile(r"Task-\d+"), features=frozenset({"edge", "rest"}))
PLAN: Final = Way(title="a plan", tasks=re.compile(r"scheduler"), features=frozenset())
START: Final = Way(
    title="a try's start",
    tasks=re.compile(r"dispatcher|.*\.Dispatcher\._run|.*\.FollowedTry\..*"),
    features=frozenset({"spark_submit"}),
)


@dataclass(frozen=True, kw_only=True, order=True)
class Called:
    """A function of the product that was called."""

    file: str
    line: int
    name: str

    @property
    def room(self) -> str:
        return room_of(self.file)


@dataclass(frozen=True, kw_only=True)
class Counted:
    """What was called on a way. `statements` begin and commit nothing."""

    way: Way
    functions: Sequence[Called]
    statements: Sequence[str]

    @property
    def files(self) -> frozenset[str]:
        return frozenset(function.file for function in self.functions)

    @property
    def rooms(self) -> Counter[str]:
        return Counter(function.room for function in self.functions)

    @property
    def not_configured(self) -> Sequence[Called]:
        """The functions of features that the way's configuration does not name."""
        expected = {KERNEL, SHARED, ROOT, *self.way.features}
        return [function for function in self.functions if function.room not in expected]

    def as_json(self) -> dict[str, object]:
        return {
            "way": self.way.title,
            "functions": len(self.functions),
            "files": len(self.files),
            "rooms": dict(self.rooms.most_common()),
            "not_configured": [
                {"feature": each.room, "function": f"{each.file}:{each.line} {each.name}"}
                for each in self.not_configured
            ],
            "statements": list(self.statements),
        }


@dataclass(kw_only=True)
class Recorder:
    """Notes which functions of the product each task calls, and which statements it sends, within a window."""

    _recording: bool = False
    _codes: dict[str, set[CodeType]] = field(default_factory=dict)
    _statements: list[tuple[str, str]] = field(default_factory=list)
    _task: ContextVar[str] = field(default_factory=lambda: ContextVar("task", default="a thread"))

    def install(self) -> None:
        """Begin to watch this thread, and those that are started from now on, for the rest of the process."""
        sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", self._on_statement)
        threading.setprofile(self._on_call)
        sys.setprofile(self._on_call)

    @contextmanager
    def window(self) -> Iterator[None]:
        self._codes, self._statements, self._recording = {}, [], True
        try:
            yield
        finally:
            self._recording = False

    def counted(self, way: Way) -> Counted:
        """What the tasks of a way did in the last window."""
        codes = {code for task, codes in self._codes.items() if way.tasks.fullmatch(task) for code in codes}
        functions = sorted(
            Called(
                file=Path(code.co_filename).relative_to(REPOSITORY).as_posix(),
                line=code.co_firstlineno,
                name=code.co_qualname,
            )
            for code in codes
        )
        statements = [
            " ".join(statement.split())
            for task, statement in self._statements
            if way.tasks.fullmatch(task) and not statement.startswith("BEGIN")
        ]
        return Counted(way=way, functions=functions, statements=statements)

    def _on_call(self, frame: FrameType, kind: str, _: object) -> None:
        if kind == "call" and frame.f_code.co_filename.startswith(PRODUCT):
            task = self._current()
            if self._recording and not frame.f_code.co_name.startswith("<"):
                self._codes.setdefault(task, set()).add(frame.f_code)

    def _on_statement(self, _connection: object, _cursor: object, statement: str, *_: Any) -> None:
        if self._recording:
            self._statements.append((self._current(), statement))

    def _current(self) -> str:
        """The name of the task that runs. A thread has the name of the task whose context it was lent."""
        try:
            task = asyncio.current_task()
        except RuntimeError:
            task = None
        if task is not None:
            self._task.set(task.get_name())
        return self._task.get()


@dataclass(frozen=True, kw_only=True)
class Driver:
    """Causes each way, and waits for its commit in the daemon's database."""

    folder: Path
    source: str
    client: httpx.AsyncClient

    async def file(self) -> None:
        await self._until_another_event("files", self._write_file)

    async def row(self) -> None:
        await self._until_another_event("rows", self._insert_row)

    async def post(self, asset: str = "posted") -> None:
        body = {"asset_id": self._read("SELECT id FROM asset WHERE name = ?", asset)}
        (await self.client.post("/api/v2/assets/events", json=body)).raise_for_status()

    async def run(self) -> None:
        await self.post("planned")
        await self._until(lambda: self._read("SELECT count(*) FROM task_try WHERE handle IS NOT NULL") > 0)

    async def ready(self) -> None:
        with anyio.fail_after(PATIENCE):
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    if (await self.client.get("/readyz")).is_success:
                        return
                await anyio.sleep(0.1)

    async def _write_file(self) -> None:
        number = len(list((self.folder / "landing").iterdir()))
        (self.folder / f"landing/{number}.csv").write_text("1\n")

    async def _insert_row(self) -> None:
        async with connected(self.source) as connection:
            await connection.execute("INSERT INTO orders (note) VALUES ('new')")

    async def _until_another_event(self, asset: str, cause: Callable[[], Awaitable[None]]) -> None:
        counting = "SELECT count(*) FROM asset_event JOIN asset ON asset.id = asset_event.asset_id WHERE asset.name = ?"
        before = self._read(counting, asset)
        await cause()
        await self._until(lambda: self._read(counting, asset) > before)

    async def _until(self, condition: Callable[[], bool]) -> None:
        with anyio.fail_after(PATIENCE):
            while not condition():  # noqa: ASYNC110  the daemon sets no event for its observer
                await anyio.sleep(0.05)

    def _read(self, statement: str, *values: str) -> int:
        with contextlib.closing(sqlite3.connect(self.folder / "home/watcher.db", timeout=PATIENCE)) as database:
            return int(database.execute(statement, values).fetchone()[0])


@asynccontextmanager
async def connected(source: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(source)
    try:
        yield connection
    finally:
        await connection.close()


def prepare(folder: Path, *, port: int, source: str) -> Path:
    """Write the configuration and what it names. Returns its path."""
    (folder / "landing").mkdir()
    (folder / "job.py").touch()
    program = folder / "spark/bin/spark-submit"
    program.parent.mkdir(parents=True)
    program.write_text(SPARK_SUBMIT)
    program.chmod(0o755)
    configuration = folder / "watchers.yaml"
    configuration.write_text(CONFIGURATION.format(port=port, source=source, folder=folder))
    return configuration


async def count(folder: Path, source: str, processes: ForeignProcesses) -> list[Counted]:
    """Run the daemon, and count every way in it."""
    async with connected(source) as connection:
        await connection.execute(TABLE)
    port = free_port()
    configuration = load_configuration(prepare(folder, port=port, source=source), processes=processes)
    options = app.RunOptions(upgrade=True, apply=True, cancel_jobs=True)
    recorder, counted = Recorder(), list[Counted]()
    recorder.install()
    async with (
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(app.run, configuration, options, processes)
        driver = Driver(folder=folder, source=source, client=client)
        await driver.ready()
        await anyio.sleep(SETTLE)
        for cause in (driver.file, driver.row, driver.post):
            await cause()  # the first of each asks for more than any other
        await anyio.sleep(SETTLE)
        for cause, ways in (
            (driver.file, [FILE]),
            (driver.row, [ROW]),
            (driver.post, [POST]),
            (driver.run, [PLAN, START]),
        ):
            with recorder.window():
                await cause()
                await anyio.sleep(AFTERWARDS)
            counted += [recorder.counted(way) for way in ways]
        os.kill(os.getpid(), signal.SIGTERM)
    return counted


def counted_ways() -> list[Counted]:
    """Count every way in a daemon of this process, whose log stays in its folder."""
    with (
        tempfile.TemporaryDirectory() as folder,
        (Path(folder) / "log").open("w") as log,
        contextlib.redirect_stderr(log),
        running_postgres() as source,
        open_processes() as processes,
    ):
        return anyio.run(count, Path(folder), source, processes)


def report(counted: Sequence[Counted], *, names: bool) -> Iterator[str]:
    """The lines that the program prints."""
    yield f"{'way':16} {'functions':>9} {'files':>6} {'statements':>10} {'not configured':>15}"
    for each in counted:
        yield (
            f"{each.way.title:16} {len(each.functions):9} {len(each.files):6} {len(each.statements):10}"
            f" {len(each.not_configured):15}"
        )
    for each in counted:
        rooms = ", ".join(f"{room} {count}" for room, count in each.rooms.most_common())
        yield f"\n{each.way.title}: {rooms}"
        for function in each.functions if names else each.not_configured:
            mark = "" if names and function not in each.not_configured else "not configured, "
            yield f"  {mark}{function.room}: {function.file}:{function.line} {function.name}"
        if names:
            yield from (f"  {statement[:150]}" for statement in each.statements)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--names", action="store_true", help="print every function and statement")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    arguments = parser.parse_args()
    counted = counted_ways()
    if arguments.json:
        print(json.dumps([each.as_json() for each in counted], indent=2))
    else:
        print("\n".join(report(counted, names=arguments.names)))


if __name__ == "__main__":
    main()
