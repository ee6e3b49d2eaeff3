"""Where jobs run: drivers that outlive daemons, speak the Execution API over a bad network, and write a table."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

from tests.simulation.daemons import Answer, Daemon, NoAnswer
from tests.simulation.sources import Folder, Version
from tests.simulation.virtual import current
from watcher.submit.base import (
    Addresses,
    Attachment,
    Handle,
    Needs,
    SparkApplication,
    Status,
    Submission,
    Submitter,
    TryKey,
)

Item: TypeAlias = "Version | int"
"""A version of a file, or the id of a row."""
STUBBORN: Final = 0.4
"""The share of drivers that are asked to end and work to their end: what they report then is refused."""
LOST_ANSWERS: Final = 0.03
"""The share of requests of drivers that are lost, and of answers."""


def items_of(extra: Mapping[str, Any]) -> list[Item]:
    """Return what an event names. A file that the cleaner has moved is the version that it was."""
    return [*(original for original, _ in files_of(extra)), *extra.get("rows", ())]


def files_of(extra: Mapping[str, Any]) -> list[tuple[Version, Version]]:
    """Return the files that an event names, each with where it is read."""
    return [
        (
            Version(path=each.get("moved_from", each["path"]), modified=each["last_modified"]),
            Version(path=each["path"], modified=each["last_modified"]),
        )
        for each in extra.get("files", ())
    ]


@dataclass(eq=False)
class Driver:
    """A driver of one try."""

    tag: str
    key: TryKey
    context: Mapping[str, Any]
    task: asyncio.Task[None] | None = None
    exit_code: int | None = None
    is_over: bool = False
    was_cancelled: bool = False


@dataclass(eq=False)
class Cluster:
    """All drivers, and the table that they write: a part for each run, replaced by a later try of it."""

    folder: Folder
    daemons: dict[str, Daemon] = field(default_factory=dict)
    drivers: dict[str, Driver] = field(default_factory=dict)
    table: dict[tuple[str, str], list[Item]] = field(default_factory=dict)
    kept: dict[tuple[str, str], list[Item]] = field(default_factory=dict)
    """What the last try of each run whose success was accepted has loaded."""
    vouched: dict[str, set[Item]] = field(default_factory=dict)
    """The files without data, markers and manifests, of the runs of each job that have succeeded."""
    may_shrink: set[tuple[str, str] | str] = field(default_factory=set)
    """The runs, and the jobs, that a person runs again without what was cleaned or superseded."""
    faults: list[str] = field(default_factory=list)
    successes: list[tuple[str, str, int]] = field(default_factory=list)
    """The run and the number of each try whose success was accepted."""
    reported_at: dict[tuple[str, str], float] = field(default_factory=dict)
    """When the last success of each run that was accepted was first reported."""
    failing: float = 0.0
    """The share of tries that fail by themselves."""
    longest: float = 4.0
    """The longest that a job works, in seconds."""
    failed_by_job: set[tuple[str, str]] = field(default_factory=set)
    """The runs of which a try failed by itself."""
    could_not_read: set[tuple[str, str]] = field(default_factory=set)
    """The runs whose last try that missed files found nothing at the place of one: it may be gone for good."""

    def begin(self, submission: Submission) -> None:
        if submission.tag in self.drivers:
            return
        driver = Driver(tag=submission.tag, key=submission.key, context=submission.context)
        self.drivers[submission.tag] = driver
        driver.task = current().create_task(self._live(driver), context=Context())

    async def _live(self, driver: Driver) -> None:
        try:
            driver.exit_code = await self._work(driver)
        except asyncio.CancelledError:
            driver.was_cancelled = True
            driver.exit_code = 143
        driver.is_over = True

    async def _work(self, driver: Driver) -> int:
        loop, dag_id, run_id = current(), driver.key.dag_id, driver.key.run_id
        await asyncio.sleep(loop.delay() + loop.random.random())
        claimed = await self._insist(driver, "claim", {"nonce": driver.tag[:64]})
        if claimed.status != 200:
            return 3
        triggering = claimed.json["triggering_asset_events"]
        extras = [event["extra"] for events in triggering.values() for event in events]
        data = [extra for extra in extras if not extra.get("last")]
        await asyncio.sleep(loop.random.random() * self.longest)
        if loop.random.random() < self.failing:
            self.failed_by_job.add((dag_id, run_id))
            if loop.random.random() < 0.5:
                await self._insist(driver, "finish", {"state": "failed", "message": "it failed"})
            return 1
        if (items := await self._read(driver, data)) is None:
            return 1
        accepted = await self._insist(driver, "progress", {"stages": 1, "tasks": 1, "tasks_done": 1})
        if accepted.status != 204:
            return 3
        before = self.table.get((dag_id, run_id))
        self.table[dag_id, run_id] = items
        reported_at = loop.time()
        finished = await self._insist(driver, "finish", {"state": "success"})
        if finished.status != 200:
            if self.table.get((dag_id, run_id)) is items:  # no later try has replaced it meanwhile
                self._put_back((dag_id, run_id), before)
            return 3
        self.successes.append((dag_id, run_id, driver.key.try_number))
        self._keep((dag_id, run_id), items)
        self.vouched.setdefault(dag_id, set()).update(*(items_of(each) for each in extras if each.get("last")))
        self.reported_at[dag_id, run_id] = reported_at
        loop.note("loaded", f"{dag_id} {len(items)}")
        return 0

    def _put_back(self, run: tuple[str, str], before: list[Item] | None) -> None:
        """Put the part of a run back as it was before a try: None if it had none."""
        if before is None:
            self.table.pop(run, None)
        else:
            self.table[run] = before

    def _keep(self, run: tuple[str, str], items: list[Item]) -> None:
        """Note what a run has in the table. A run that succeeded loses nothing there unless a person says so."""
        lost = {*self.kept.get(run, ())} - {*items}
        if lost and self.may_shrink.isdisjoint({run, run[0]}):
            self.faults.append(f"{run} ran again, and {sorted(map(str, lost))} went from its part of the table")
        self.kept[run] = items

    async def _read(self, driver: Driver, extras: Sequence[Mapping[str, Any]]) -> list[Item] | None:
        """Return what is loaded. Files that are missing, and superseded by what the daemon says, are left out; None: others are missing."""
        run, left_out = (driver.key.dag_id, driver.key.run_id), set[str]()
        if self._missing(extras, left_out):
            names = sorted({place.path for extra in extras for _, place in files_of(extra)})
            answer = await self._insist(driver, "superseded", {"paths": names})
            left_out.update(answer.json["superseded"] if answer.status == 200 else ())
        if missing := self._missing(extras, left_out):
            is_gone = not all(each["overwritten"] for each in missing)
            (self.could_not_read.add if is_gone else self.could_not_read.discard)(run)
            current().note("missed", f"{run} {missing}")
            body = {"state": "failed", "message": "files are missing", "missing": missing}
            await self._insist(driver, "finish", body)
            return None
        files = [file for extra in extras for file, place in files_of(extra) if place.path not in left_out]
        return [*files, *(row for extra in extras for row in extra.get("rows", ()))]

    def _missing(self, extras: Sequence[Mapping[str, Any]], left_out: Collection[str]) -> list[dict[str, Any]]:
        """Return the files that are not as the events say, as the SDK reports them."""
        places = {place for extra in extras for _, place in files_of(extra)}
        missing = {each.path for each in places if each.path not in left_out and not self.folder.is_there(each)}
        return [{"path": each, "overwritten": Path(each).exists()} for each in sorted(missing)]

    async def _insist(self, driver: Driver, path: str, body: Mapping[str, Any]) -> Answer:
        """Send a request until it is answered: as the SDK does, with one key for all its repetitions."""
        loop = current()
        at = path if path == "superseded" else f"tries/{path}"
        headers = {"authorization": f"Bearer {driver.context['token']}", "idempotency-key": f"{driver.tag} {path}"}
        while True:
            daemon = self._reached(driver)
            lost, answer_lost = (loop.random.random() < LOST_ANSWERS for _ in range(2))
            if daemon is None or lost:
                await asyncio.sleep(1 + loop.random.random())
                continue
            try:
                answer = await daemon.ask("POST", f"/execution/{at}", dict(body), headers=headers)
            except NoAnswer:
                await asyncio.sleep(1 + loop.random.random())
                continue
            if answer.status >= 500 or answer_lost:
                await asyncio.sleep(1 + loop.random.random())
                continue
            if (
                answer.status == 403
            ):  # the clocks of who issued the token and of who reads it differ by more than seconds
                self.failed_by_job.add((driver.key.dag_id, driver.key.run_id))
            if answer.status >= 400:
                loop.note("refused", f"{driver.key.dag_id} {driver.key.run_id} {path} {answer.status} {answer.text}")
            return answer

    def _reached(self, driver: Driver) -> Daemon | None:
        """Return the process at the address that the driver was given, or any other: there is a service before them."""
        living = [each for each in self.daemons.values() if each.runs]
        named = [each for each in living if each.address == driver.context["api"]]
        return next(iter([*named, *living]), None)


CLUSTER: Final[list[Cluster]] = []
"""The one of this history."""


class StandIn(Submitter):
    """Starts drivers in the cluster, whose answers take their time."""

    ends_with_home: ClassVar[bool] = True
    poll_every = timedelta(seconds=1)

    async def submit(self, submission: Submission) -> Handle:
        loop = current()
        await asyncio.sleep(loop.delay())
        CLUSTER[0].begin(submission)
        await asyncio.sleep(loop.delay())
        return {"tag": submission.tag}

    async def attach(self, key: TryKey, tag: str, handle: Handle | None) -> Handle | Attachment:  # noqa: ARG002
        await asyncio.sleep(current().delay())
        return {"tag": tag} if tag in CLUSTER[0].drivers else Attachment.ABSENT

    async def poll(self, handle: Handle) -> Status:
        driver = CLUSTER[0].drivers[handle["tag"]]
        if driver.is_over:
            return Status(phase="exited", exit_code=driver.exit_code, stopped=driver.was_cancelled)
        return Status(phase="running")

    async def cancel(self, handle: Handle, grace: float) -> None:  # noqa: ARG002
        driver = CLUSTER[0].drivers[handle["tag"]]
        await asyncio.sleep(current().delay())
        if driver.task is not None and not driver.is_over and current().random.random() > STUBBORN:
            driver.task.cancel()
        while not driver.is_over:
            await asyncio.sleep(0.1)

    async def logs(self, handle: Handle, offset: int) -> AsyncIterator[bytes]:
        yield json.dumps([dict(handle), offset]).encode()

    def needs(self, application: SparkApplication) -> Needs:  # noqa: ARG002
        return Needs()

    def api_url(self, addresses: Addresses) -> str:
        return addresses.local
