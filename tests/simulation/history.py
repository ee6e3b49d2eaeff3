"""One history: a world, daemons and people, drawn from a seed and played in virtual time, and what must hold at its end."""

from __future__ import annotations

import asyncio
import math
import shutil
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from itertools import permutations, product
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.service.scheduler.allowed_fates import AskedFor
from tests.simulation import sources
from tests.simulation.cluster import CLUSTER, Cluster
from tests.simulation.daemons import Answer, Daemon, Death, NoAnswer, opened
from tests.simulation.judge import Judge
from tests.simulation.options import FOLDERS, VOUCHES, Options
from tests.simulation.sources import FAULTS, ROWS, Folder, Version
from tests.simulation.virtual import VirtualLoop, current
from watcher.scheduling.planning.scheduler import CHECK_EVERY

DEEDS: Final = (
    "rewind",
    "replay",
    "clear",
    "retry",
    "cancel",
    "delete",
    "mark",
    "drop",
    "pause",
    "pause_watcher",
    "reload",
    "catch_up",
    "clean",
    "rewrite",
    "rename",
    "vanish",
    "retention",
    "retention_of_runs",
    "crash",
    "freeze",
    "hand_over",
    "clock_step",
    "outage",
    "slow_commit",
    "source_outage",
)
"""What people, machines and sources do besides writing."""
WHEN: Final = ("during", "soon", "later")
"""When the second deed of a pair comes: while the first goes on, right after it, or once its effects are there."""
WRITTEN: Final = ("asset_event", "watcher_position", "run_asset_event", "task_try", "cleaning")
"""The tables at whose next commit a process may be killed."""
ROWS_OF_DEEDS: Final = [*product(DEEDS, DEEDS, WHEN)]
"""The array of deeds: every ordered pair, at every distance."""
TRIPLES: Final = [*permutations(("clean", "replay", "clear", "catch_up", "rewrite", "retention_of_runs"), 3)]
"""The deeds that mean what has been loaded: every three, in every order, on one file."""
STRIDE: Final = 271
"""Has no divisor in common with the array's length, so that neighbouring seeds draw rows that lie apart."""
AT_ONCE: Final = 4
"""The rows of the array that one history plays."""
EVERY: Final = 3
"""Each third history plays two triples in place of its pairs."""
SETTLED_AFTER: Final = CHECK_EVERY.total_seconds() + 4
"""Seconds without any change after which a history is at rest: a leader may look that late at what another process has stored."""
LONGEST_REST: Final = 900.0
LOOK_EVERY: Final = 2.0
"""Seconds between two looks of the judge."""
MOST_LATE: Final = 3
"""The most jobs that catch up, at one time."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a seed draws. A shrunk one leaves some of it out."""

    seed: int
    steps: Sequence[tuple[str, ...]]
    """Pairs of deeds with their distance, or three deeds."""
    without: frozenset[int] = frozenset()
    """The places of the steps that a shrunk history leaves out."""

    @classmethod
    def of(cls, seed: int) -> Plan:
        number, rest = divmod(seed, EVERY)
        if rest == 0:
            return cls(seed=seed, steps=[TRIPLES[(2 * number + each) % len(TRIPLES)] for each in range(2)])
        first = (seed - number) * AT_ONCE
        places = [(first + each) * STRIDE % len(ROWS_OF_DEEDS) for each in range(AT_ONCE)]
        return cls(seed=seed, steps=[ROWS_OF_DEEDS[place] for place in places])

    @property
    def deeds(self) -> frozenset[str]:
        return frozenset(deed for step in self.steps for deed in step if deed in DEEDS)

    def options(self, random: Random) -> Options:
        """Draw the configuration."""
        return Options.drawn(random, cleans="clean" in self.deeds)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a history."""

    seed: int
    faults: Sequence[str]
    digest: int
    seconds: float
    """Virtual ones."""
    counts: Mapping[str, int]
    pairs: Sequence[Any]
    deeds: Sequence[Any]
    trace: Sequence[str] = ()


@dataclass(eq=False)
class History:
    """The world of one history."""

    plan: Plan
    root: Path
    template: Path
    random: Random = field(init=False)
    options: Options = field(init=False)
    daemons: dict[str, Daemon] = field(default_factory=dict)
    asked: AskedFor = field(default_factory=AskedFor)
    done: list[tuple[str, ...]] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    """The jobs with catchup that there are."""
    focus: str | None = None
    """The file that the deeds of a step mean most of the time."""
    ends: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    _files: int = 0
    _late: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.plan.seed)
        self.options = self.plan.options(self.random)
        self.database = self.root / "db.sqlite"
        self.folder = Folder(root=self.root)
        self.cluster = Cluster(folder=self.folder, daemons=self.daemons)
        CLUSTER[:] = [self.cluster]
        ROWS.clear()
        FAULTS.clear()
        sources.CHANGED.clear()

    async def play(self) -> Outcome:
        loop = current()
        shutil.copy(self.template, self.database)
        for name in ("in", "done"):
            (self.root / name).mkdir()
        (self.root / "job.py").write_text("")
        self.rows = opened(self.database)
        self.judge = Judge(
            database=self.rows,
            options=self.options,
            folder=self.folder,
            cluster=self.cluster,
            asked=self.asked,
            counts=self.counts,
            ask=self.ask,
        )
        self.names = ["p1", "p2", "p3"][: self.options["processes"]]
        for name in self.names:
            self._write_configuration(name)
            self._start(name)
            await asyncio.sleep(self.random.random())
        writing = loop.create_task(self._write_now_and_then())
        looking = loop.create_task(self._look_now_and_then())
        self.cluster.failing = self.random.choice((0.0, 0.0, 0.3))
        self.slowest = loop.pace = self.random.choice((0.3, 1.0, 3.0))
        await asyncio.sleep(4)
        for number, step in enumerate(self.plan.steps):
            if number not in self.plan.without:
                await self._step(step)
            await asyncio.sleep(self.random.random() * 4)
        writing.cancel()
        await self._rest()
        looking.cancel()
        await self.judge.at_rest(self.late, slowest=self.slowest)
        self.counts["items"] = len(self.folder.written) + len(ROWS)
        return Outcome(
            seed=self.plan.seed,
            faults=self.judge.faults,
            digest=loop.digest,
            seconds=loop.time(),
            counts=self.counts,
            pairs=[*self.options.pairs],
            deeds=self.done,
            trace=loop.trace,
        )

    # -- the world

    def _write_configuration(self, name: str, interval: str = "2s") -> None:
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        self.options.write(
            folder / "watcher.yaml",
            folder / "home",
            self.database,
            self.root,
            late=self.late,
            interval=interval,
        )

    def _start(self, name: str) -> None:
        before = self.daemons.get(name)
        daemon = Daemon(name=name, configuration=self.root / name / "watcher.yaml", on_death=self._on_death)
        if before is not None:
            daemon.offset, daemon.outage_until = before.offset, before.outage_until
        self.daemons[name] = daemon
        daemon.start()

    def _on_death(self, daemon: Daemon) -> None:
        if daemon.ended_by_itself and not (daemon.was_without_database and not daemon.is_ready):
            self.judge.fault(f"{daemon.name} ended by itself: {daemon.ended_by_itself}")
        wait = 1 + self.random.random() * 6
        current().call_later(
            wait, self._start_again, daemon, context=Context()
        )  # it is not the dead one that does this

    def _start_again(self, daemon: Daemon) -> None:
        if self.daemons[daemon.name] is daemon and not self.ends:
            self._start(daemon.name)

    async def _write_now_and_then(self) -> None:
        for _ in range(12):
            if self.random.random() < 0.6:
                self._new_file()
            else:
                ROWS.extend(range(len(ROWS) + 1, len(ROWS) + 1 + self.random.randint(1, 4)))
            await asyncio.sleep(self.random.random() * 8)

    def _new_file(self) -> Version:
        self._files += 1
        part = self.random.choice(FOLDERS[self.options["partition"]])
        if self.options["last"] and self._files > 1 and self.random.random() < 0.35:
            return self.folder.write(part + VOUCHES[self.options["last"]])
        kind = "other" if self.options["assets"] and self.random.random() < 0.3 else "f"
        return self.folder.write(f"{part}{kind}{self._files}")

    async def _look_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            self.judge.look()

    async def _step(self, step: tuple[str, ...]) -> None:
        current().note("deeds", ", ".join(step))
        names = [name for name in self._newest_names() if not name.endswith((*VOUCHES.values(),))]
        self.focus = self.random.choice(names) if names else None
        if step in ROWS_OF_DEEDS:
            await self._pair(*step)
        else:
            await self._triple(step)
        self.done.append(step)

    def _newest_names(self) -> list[str]:
        """Return the names of the newest files that are there."""
        there = [each for each in self.folder.written if self.folder.is_there(each)]
        return [str(Path(each.path).relative_to(self.root / "in")) for each in there[-3:]]

    def _some_name(self) -> str | None:
        """Return the file that the deeds of a step mean, or another."""
        if self.focus is not None and self.random.random() < 0.8 and self.folder.now(self.focus) is not None:
            return self.focus
        names = self._newest_names()
        return self.random.choice(names) if names else None

    async def _pair(self, first: str, second: str, when: str) -> None:
        started = current().create_task(self._deed(first))
        if when == "during":
            await asyncio.sleep(self.random.random() * 0.05)
        else:
            await started
            await asyncio.sleep(self.random.random() * 2 if when == "soon" else 6 + self.random.random() * 4)
        await self._deed(second)
        await started

    async def _triple(self, deeds: Sequence[str]) -> None:
        """Play deeds one after the other, or each while the one before goes on, on a file that was loaded before."""
        await self._until(self._is_loaded, 12)
        started: list[asyncio.Task[None]] = []
        for deed in deeds:
            started.append(current().create_task(self._deed(deed)))
            if self.random.random() < 0.6:
                await started[-1]
            await asyncio.sleep(self.random.random() * 2)
        for each in started:
            await each

    def _is_loaded(self) -> bool:
        """Whether the run of a job has loaded a version of the file that the deeds mean."""
        return any(str(self.focus) in str(item) for items in self.cluster.kept.values() for item in items)

    async def _until(self, holds: Callable[[], bool], seconds: int, *, each: float = 1) -> None:
        for _ in range(round(seconds / each)):
            if holds():
                return
            await asyncio.sleep(each)

    async def _deed(self, name: str) -> None:
        current().note("deed", name)
        self.counts[name] += 1
        deed: Callable[[], Awaitable[None]] = getattr(self, f"_{name}")
        await deed()
        self.judge.look()

    # -- what people do

    async def ask(self, method: str, path: str, body: Any = None) -> Answer | None:
        """Send a request to any process that listens. None: nobody knows what became of it."""
        living = [each for each in self.daemons.values() if each.runs]
        if not living:
            return None
        try:
            answer = await self.random.choice(living).ask(method, path, body)
        except NoAnswer:
            return None
        current().note("answer", f"{method} {path} {answer.status}")
        if answer.status >= 500 and answer.status not in (502, 503):
            self.judge.fault(f"{method} {path} answers {answer.status}: {answer.text[:300]}")
        return answer

    def _runs(self, states: Sequence[str]) -> list[tuple[str, str]]:
        marks = ", ".join("?" * len(states))
        rows = self.rows.execute(f"SELECT dag_id, run_id FROM run WHERE state IN ({marks}) ORDER BY id", [*states])
        return [(row["dag_id"], row["run_id"]) for row in rows]

    def _made(self, dag_id: str) -> set[int]:
        """Return the runs that were made of what was queued for a job, and are still there."""
        query = "SELECT id FROM run WHERE dag_id = ? AND run_id LIKE 'asset_triggered%'"
        return {row["id"] for row in self.rows.execute(query, [dag_id])}

    def _some_run(self, *states: str) -> tuple[str, str] | None:
        """Return a run of those that have the file that the deeds of a step mean, or of the newest ones."""
        runs = self._runs(states)
        if self.focus is not None and self.random.random() < 0.7:
            query = "SELECT dag_id, run_id FROM run_asset_event JOIN asset_event e ON e.id = run_asset_event.event_id WHERE instr(e.extra, ?)"
            runs = [run for run in map(tuple, self.rows.execute(query, [f"/{self.focus}"])) if run in runs] or runs
        runs = runs[-3:]
        return self.random.choice(runs) if runs else None

    async def _rewind(self) -> None:
        watcher = self.random.choice(("files", "rows"))
        to = "now" if self.random.random() < 0.2 else "start"
        self.asked.rewinds[watcher] += 1
        if to == "now":
            self.asked.passed_over.add(watcher)
        before = self.judge.rows_named()
        answer = await self.ask("POST", f"/api/v2/watchers/{watcher}/rewind", {"to": to})
        if answer is not None and answer.status == 200 and (watcher, to) == ("rows", "start"):
            for item, number in before.items():
                self.judge.again[item] = max(self.judge.again.get(item, 0), number + 1)

    async def _replay(self) -> None:
        dag_id = self.random.choice(("one", "one", "two", "four", *self.late))
        self.asked.decided.add(dag_id)
        included = self._included(dag_id)
        around = {"from": "2029-12-31T00:00:00Z", "to": "2031-12-31T00:00:00Z"}
        await self.ask(
            "POST",
            f"/api/v2/dags/{dag_id}/replay",
            {**around, **included, "dry_run": False, "include_dropped": self.random.random() < 0.5},
        )

    def _included(self, what: tuple[str, str] | str) -> Mapping[str, bool]:
        """Draw whether a run, or the runs of a job, may go without what was cleaned or superseded since."""
        if self.random.random() < 0.7:
            return {}
        self.cluster.may_shrink.add(what)
        return {"include_cleaned": True, "include_superseded": True}

    async def _of_run(self, states: Sequence[str], send: Callable[[str], tuple[str, str, Any]]) -> None:
        run = self._some_run(*states)
        if run is not None:
            self.asked.touched.add(run)
            method, path, body = send(f"/api/v2/dags/{run[0]}/dagRuns/{run[1]}")
            if path.endswith("/clear"):
                body = {**body, **self._included(run)}
            answer = await self.ask(method, path, body)
            is_end = body in ({"state": "failed"}, {"state": "success"})
            if is_end and answer is not None and answer.status == 200 and run not in self.judge.ended:
                self.judge.ended[run] = current().time()
            else:
                self.judge.ended[run] = math.inf  # it may go on

    async def _clear(self) -> None:
        await self._of_run(("success", "failed"), lambda at: ("POST", f"{at}/clear", {"dry_run": False}))

    async def _retry(self) -> None:
        await self._of_run(("failed", "success"), lambda at: ("PATCH", at, {"state": "queued"}))

    async def _cancel(self) -> None:
        await self._of_run(("queued", "running"), lambda at: ("PATCH", at, {"state": "failed"}))

    async def _mark(self) -> None:
        state = self.random.choice(("success", "failed"))
        await self._of_run(("queued", "running", "success", "failed"), lambda at: ("PATCH", at, {"state": state}))

    async def _delete(self) -> None:
        await self._of_run(("success", "failed"), lambda at: ("DELETE", at, None))

    async def _drop(self) -> None:
        dag_id = self.random.choice(("one", "two", "two"))
        before = self.asked.dropped.get(dag_id, 0)
        self.asked.dropped[dag_id] = sys.maxsize  # until it is answered
        answer = await self.ask("DELETE", f"/api/v2/dags/{dag_id}/assets/queuedEvents")
        newest = self.rows.execute("SELECT max(id) FROM asset_event").fetchone()[0] or 0
        self.asked.dropped[dag_id] = newest if answer is None or answer.status < 400 else before

    async def _pause(self) -> None:
        dag_id = self.random.choice(("one", "two", "four"))
        answer = await self.ask("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": True})
        before = self._made(dag_id)
        await asyncio.sleep(self.random.random() * 14)
        if (
            answer is not None
            and answer.status == 200
            and dag_id not in self.asked.decided
            and self._made(dag_id) - before
        ):
            self.judge.fault(f"{dag_id} is paused, and gets another run")
        await self.ask("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False})

    async def _pause_watcher(self) -> None:
        watcher = self.random.choice(("files", "rows"))
        await self.ask("POST", f"/api/v2/watchers/{watcher}/pause")
        await asyncio.sleep(self.random.random() * 6)
        await self.ask("POST", f"/api/v2/watchers/{watcher}/resume")

    async def _reload(self) -> None:
        """Remove the newest job that catches up, or add one, and change an option of the watcher."""
        if self.late:
            self.asked.removed.add(self.late.pop())
        else:
            self._add_late()
        await self._reconfigure(asks=self.random.random() < 0.5)

    async def _catch_up(self) -> None:
        """Add a job that gets what is stored."""
        if len(self.late) < MOST_LATE:
            self._add_late()
        await self._reconfigure(asks=True)

    def _add_late(self) -> None:
        self._late += 1
        self.late.append(f"late{self._late}")

    async def _reconfigure(self, *, asks: bool) -> None:
        interval = self.random.choice(("1s", "2s", "3s"))
        for name in self.names:
            self._write_configuration(name, interval=interval)
        if asks:
            await self.ask("POST", "/api/v2/reload")

    # -- what sources and machines do

    async def _rewrite(self) -> None:
        """Write a file anew, where sources are cleaned at times while it is being removed."""
        if self.options["clean_source"] and self.random.random() < 0.4:
            await self._until(self._is_in_hand, 10, each=0.02)
        if name := self._some_name():
            self.folder.write(name)

    def _is_in_hand(self) -> bool:
        in_hand = (
            "cleaning JOIN asset_event e ON e.id = cleaning.event_id WHERE working IS NOT NULL AND instr(extra, ?)"
        )
        return self.rows.execute(f"SELECT 1 FROM {in_hand}", [f"/{self.focus}"]).fetchone() is not None

    async def _vanish(self) -> None:
        if name := self._some_name():
            self.folder.vanish(name)

    async def _rename(self) -> None:
        name = self._some_name()
        if name is not None and not name.endswith((*VOUCHES.values(),)):
            self._files += 1
            self.folder.rename(name, f"{name}-{self._files}")

    async def _clean(self) -> None:
        """Wait until a file of those that the deeds mean was removed by the cleaner."""
        mine = [each for each in self.folder.written if self.focus is not None and each.path.endswith(f"/{self.focus}")]
        cleaned = [*filter(self.folder.was_cleaned, mine)]
        if self.options["clean_source"]:
            await self._until(lambda: [*filter(self.folder.was_cleaned, mine)] != cleaned, 20)
        self.counts["clean: seen"] += [*filter(self.folder.was_cleaned, mine)] != []

    async def _retention(self) -> None:
        """Let a hundred days pass while nothing runs."""
        self.asked.is_past_retention = True
        await self._let_pass(100)

    async def _retention_of_runs(self) -> None:
        """Let as many days pass as runs are kept, while nothing runs: events are kept for longer."""
        self.asked.is_past_retention_of_runs = True
        self.asked.is_past_retention |= current().ahead > 50 * 86400
        await self._let_pass(31)

    async def _let_pass(self, days: int) -> None:
        while any(not each.is_over for each in self.cluster.drivers.values()):
            await asyncio.sleep(1)
        for daemon in [*self.daemons.values()]:
            daemon.kill()
        current().ahead += days * 86400
        await asyncio.sleep(10)

    async def _crash(self) -> None:
        daemon = self.random.choice([*self.daemons.values()])
        if self.random.random() < 0.3:
            daemon.kill()
        else:
            table = self.random.choice(("", *WRITTEN))
            left = self.random.randint(0, 4) if not table else 0
            daemon.dies_at = Death(table=table, takes_effect=self.random.random() < 0.5, left=left)
        await asyncio.sleep(self.random.random())

    async def _slow_commit(self) -> None:
        daemon = self.random.choice([*self.daemons.values()])
        daemon.slow_at = daemon.commits + self.random.randint(1, 4)
        await asyncio.sleep(self.random.random())

    async def _freeze(self) -> None:
        daemon = self.random.choice([*self.daemons.values()])
        while daemon.writes and not daemon.is_dead:
            await asyncio.sleep(0.01)
        daemon.freeze()
        await asyncio.sleep(self.random.choice((1, 10, 25)))
        daemon.thaw()

    async def _hand_over(self) -> None:
        daemon = self.random.choice([*self.daemons.values()])
        if daemon.runs:
            daemon.stop()
        await asyncio.sleep(self.random.random())

    async def _clock_step(self) -> None:
        daemon = self.random.choice([*self.daemons.values()])
        daemon.offset += self.random.choice((-600, -5, 5, 600))

    async def _outage(self) -> None:
        until = current().time() + self.random.choice((1, 5, 20))
        for daemon in self.daemons.values():
            daemon.outage_until = until

    async def _source_outage(self) -> None:
        FAULTS[self.random.choice(("folder", "rows"))] = current().time() + self.random.random() * 10

    # -- its end

    async def _rest(self) -> None:
        """Let everything heal, and wait until nothing changes any more."""
        loop = current()
        loop.pace, self.cluster.failing = 0.3, 0.0
        loop.note("rest")
        FAULTS.clear()
        for daemon in self.daemons.values():
            daemon.outage_until, daemon.dies_at, daemon.slow_at, daemon.offset = 0.0, None, None, 0.0
            daemon.thaw()
        await asyncio.sleep(10)
        for dag_id in ("one", "two", "three", "four"):
            await self._until_answered("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False})
        for watcher in ("files", "rows"):
            await self._until_answered("POST", f"/api/v2/watchers/{watcher}/resume")
        await asyncio.sleep(2)
        self._new_file()  # nobody asks for anything any more: what comes now is found by itself
        ROWS.append(len(ROWS) + 1)
        before, since, until = "", loop.time(), loop.time() + LONGEST_REST
        while loop.time() < since + SETTLED_AFTER:
            if (state := self._state()) != before:
                before, since = state, loop.time()
            if loop.time() > until:
                self.judge.fault(f"nothing comes to rest: {state}; {self._open_runs()}")
                return
            await asyncio.sleep(1)

    async def _until_answered(self, method: str, path: str, body: Any = None) -> None:
        for _ in range(60):
            answer = await self.ask(method, path, body)
            if answer is not None and answer.status != 503:
                return
            await asyncio.sleep(1)
        self.judge.fault(f"{method} {path} is not answered for a minute")

    def _state(self) -> str:
        (events, queued, cleanings) = (
            self.rows.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            for name in ("asset_event", "queued_event", "cleaning WHERE state = 'done'")
        )
        open_runs = self.rows.execute(
            "SELECT count(*) FROM run JOIN job USING (dag_id) WHERE state IN ('queued', 'running') AND active"
        ).fetchone()[0]
        moving = current().time() if open_runs else ""
        return f"{events} events, {queued} queued, {cleanings} cleaned, {open_runs} open {moving}"

    def _open_runs(self) -> list[str]:
        query = (
            "SELECT r.dag_id, r.run_id, r.state, r.reason, t.state AS of_task, t.detail, t.try_number FROM run r"
            " JOIN task_instance t USING (dag_id, run_id) WHERE r.state IN ('queued', 'running')"
        )
        return [str(tuple(row)) for row in self.rows.execute(query)]


def played(plan: Plan, root: Path, template: Path) -> Outcome:
    """Play a history to its end, in this process."""
    loop = VirtualLoop(plan.seed)
    asyncio.set_event_loop(loop)
    history = History(plan=plan, root=root, template=template)
    task = loop.create_task(history.play())
    return loop.run_until_complete(task)
