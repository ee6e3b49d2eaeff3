"""One history: a world, daemons and people, drawn from a seed and played in virtual time, and what must hold at its end."""

from __future__ import annotations

import asyncio
import json
import math
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.service.scheduler.allowed_fates import (
    AskedFor,
    SeenEvent,
    events_allowed,
    fates_allowed,
    nothing_due_is_left,
    places_faults,
)
from tests.simulation import sources
from tests.simulation.cluster import CLUSTER, Cluster, Item, items_of
from tests.simulation.daemons import Answer, Daemon, Death, NoAnswer, opened
from tests.simulation.options import PARTS, Options
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
    "rewrite",
    "vanish",
    "retention",
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
STRIDE: Final = 271
"""Has no divisor in common with the array's length, so that neighbouring seeds draw rows that lie apart."""
AT_ONCE: Final = 4
"""The rows of the array that one history plays."""
SETTLED_AFTER: Final = CHECK_EVERY.total_seconds() + 4
"""Seconds without any change after which a history is at rest: a leader may look that late at what another process has stored."""
LONGEST_REST: Final = 900.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a seed draws. A shrunk one leaves some of it out."""

    seed: int
    steps: Sequence[tuple[str, str, str]]
    without: frozenset[int] = frozenset()
    """The places of the steps that a shrunk history leaves out."""

    @classmethod
    def of(cls, seed: int) -> Plan:
        first = seed * AT_ONCE
        places = [(first + number) * STRIDE % len(ROWS_OF_DEEDS) for number in range(AT_ONCE)]
        return cls(seed=seed, steps=[ROWS_OF_DEEDS[place] for place in places])


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
    faults: list[str] = field(default_factory=list)
    done: list[tuple[str, str, str]] = field(default_factory=list)
    has_late: bool = False
    ends: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    again: dict[Item, int] = field(default_factory=dict)
    """How many events must name an item at least, because its watcher was told to report it again."""
    ended: dict[tuple[str, str], float] = field(default_factory=dict)
    """When a person ended a run for good."""
    _files: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.plan.seed)
        self.options = Options.drawn(self.random)
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
        self.judge = opened(self.database)
        self.names = ["p1", "p2", "p3"][: self.options["processes"]]
        for name in self.names:
            self._write_configuration(name)
            self._start(name)
            await asyncio.sleep(self.random.random())
        writing = loop.create_task(self._write_now_and_then())
        self.cluster.failing = self.random.choice((0.0, 0.0, 0.3))
        self.slowest = loop.pace = self.random.choice((0.3, 1.0, 3.0))
        await asyncio.sleep(4)
        for number, step in enumerate(self.plan.steps):
            if number not in self.plan.without:
                await self._pair(*step)
            await asyncio.sleep(self.random.random() * 4)
        writing.cancel()
        await self._rest()
        await self._judge()
        self.counts["items"] = len(self.folder.written) + len(ROWS)
        return Outcome(
            seed=self.plan.seed,
            faults=self.faults,
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
            with_late=self.has_late,
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
            self.faults.append(f"{daemon.name} ended by itself: {daemon.ended_by_itself}")
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
        part = f"{self.random.choice(PARTS)}/" if self.options["partition"] else ""
        kind = "other" if self.options["assets"] and self.random.random() < 0.3 else "f"
        return self.folder.write(f"{part}{kind}{self._files}")

    async def _pair(self, first: str, second: str, when: str) -> None:
        loop = current()
        loop.note("deeds", f"{first}, {when} {second}")
        started = loop.create_task(self._deed(first))
        if when == "during":
            await asyncio.sleep(self.random.random() * 0.05)
        else:
            await started
            await asyncio.sleep(self.random.random() * 2 if when == "soon" else 6 + self.random.random() * 4)
        await self._deed(second)
        await started
        self.done.append((first, second, when))

    async def _deed(self, name: str) -> None:
        current().note("deed", name)
        self.counts[name] += 1
        deed: Callable[[], Awaitable[None]] = getattr(self, f"_{name}")
        await deed()

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
        if answer.status >= 500 and answer.status != 503:
            self.faults.append(f"{method} {path} answers {answer.status}: {answer.text[:300]}")
        return answer

    def _runs(self, states: Sequence[str]) -> list[tuple[str, str]]:
        marks = ", ".join("?" * len(states))
        rows = self.judge.execute(f"SELECT dag_id, run_id FROM run WHERE state IN ({marks}) ORDER BY id", [*states])
        return [(row["dag_id"], row["run_id"]) for row in rows]

    def _made(self, dag_id: str) -> set[int]:
        """Return the runs that were made of what was queued for a job, and are still there."""
        query = "SELECT id FROM run WHERE dag_id = ? AND run_id LIKE 'asset_triggered%'"
        return {row["id"] for row in self.judge.execute(query, [dag_id])}

    def _some_run(self, *states: str) -> tuple[str, str] | None:
        """Return a run of the newest ones: the deeds of a pair mean the same run most of the time."""
        runs = self._runs(states)[-3:]
        return self.random.choice(runs) if runs else None

    async def _rewind(self) -> None:
        watcher = self.random.choice(("files", "rows"))
        to = "now" if self.random.random() < 0.2 else "start"
        self.asked.rewinds[watcher] += 1
        if to == "now":
            self.asked.passed_over.add(watcher)
        before = Counter(item for _, items, _ in self._events().values() for item in items if isinstance(item, int))
        answer = await self.ask("POST", f"/api/v2/watchers/{watcher}/rewind", {"to": to})
        if answer is not None and answer.status == 200 and (watcher, to) == ("rows", "start"):
            for item, number in before.items():
                self.again[item] = max(self.again.get(item, 0), number + 1)

    async def _replay(self) -> None:
        dag_id = self.random.choice(("one", "two", "four"))
        self.asked.decided.add(dag_id)
        around = {"from": "2029-12-31T00:00:00Z", "to": "2031-12-31T00:00:00Z"}
        await self.ask(
            "POST",
            f"/api/v2/dags/{dag_id}/replay",
            {**around, "dry_run": False, "include_dropped": self.random.random() < 0.5},
        )

    async def _of_run(self, states: Sequence[str], send: Callable[[str], tuple[str, str, Any]]) -> None:
        run = self._some_run(*states)
        if run is not None:
            self.asked.touched.add(run)
            method, path, body = send(f"/api/v2/dags/{run[0]}/dagRuns/{run[1]}")
            answer = await self.ask(method, path, body)
            is_end = body in ({"state": "failed"}, {"state": "success"})
            if is_end and answer is not None and answer.status == 200 and run not in self.ended:
                self.ended[run] = current().time()
            else:
                self.ended[run] = math.inf  # it may go on

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
        answer = await self.ask("DELETE", f"/api/v2/dags/{dag_id}/assets/queuedEvents")
        newest = self.judge.execute("SELECT max(id) FROM asset_event").fetchone()[0] or 0
        if answer is None or answer.status < 400:
            self.asked.dropped[dag_id] = max(newest, self.asked.dropped.get(dag_id, 0))

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
            self.faults.append(f"{dag_id} is paused, and gets another run")
        await self.ask("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False})

    async def _pause_watcher(self) -> None:
        watcher = self.random.choice(("files", "rows"))
        await self.ask("POST", f"/api/v2/watchers/{watcher}/pause")
        await asyncio.sleep(self.random.random() * 6)
        await self.ask("POST", f"/api/v2/watchers/{watcher}/resume")

    async def _reload(self) -> None:
        """Add or remove the job that catches up, and change an option of the watcher."""
        self.has_late = not self.has_late
        self.asked.removed.add("late")
        interval = self.random.choice(("1s", "2s", "3s"))
        for name in self.names:
            self._write_configuration(name, interval=interval)
        if self.random.random() < 0.5:
            await self.ask("POST", "/api/v2/reload")

    # -- what sources and machines do

    async def _rewrite(self) -> None:
        if names := self.folder.names():
            self.folder.write(self.random.choice(names[-3:]))

    async def _vanish(self) -> None:
        if names := self.folder.names():
            self.folder.vanish(self.random.choice(names[-3:]))

    async def _retention(self) -> None:
        """Let a hundred days pass while nothing runs."""
        self.asked.is_past_retention = True
        while any(not each.is_over for each in self.cluster.drivers.values()):
            await asyncio.sleep(1)
        for daemon in [*self.daemons.values()]:
            daemon.kill()
        current().ahead += 100 * 86400
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
        while daemon.writes:
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
        before, since, until = "", loop.time(), loop.time() + LONGEST_REST
        while loop.time() < since + SETTLED_AFTER:
            if (state := self._state()) != before:
                before, since = state, loop.time()
            if loop.time() > until:
                self.faults.append(f"nothing comes to rest: {state}; {self._open_runs()}")
                return
            await asyncio.sleep(1)

    async def _until_answered(self, method: str, path: str, body: Any = None) -> None:
        for _ in range(60):
            answer = await self.ask(method, path, body)
            if answer is not None and answer.status != 503:
                return
            await asyncio.sleep(1)
        self.faults.append(f"{method} {path} is not answered for a minute")

    def _state(self) -> str:
        (events, queued, cleanings) = (
            self.judge.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            for name in ("asset_event", "queued_event", "cleaning WHERE state = 'done'")
        )
        open_runs = self.judge.execute(
            "SELECT count(*) FROM run JOIN job USING (dag_id) WHERE state IN ('queued', 'running') AND active"
        ).fetchone()[0]
        moving = current().time() if open_runs else ""
        return f"{events} events, {queued} queued, {cleanings} cleaned, {open_runs} open {moving}"

    def _open_runs(self) -> list[str]:
        query = (
            "SELECT r.dag_id, r.run_id, r.state, r.reason, t.state AS of_task, t.detail, t.try_number FROM run r"
            " JOIN task_instance t USING (dag_id, run_id) WHERE r.state IN ('queued', 'running')"
        )
        return [str(tuple(row)) for row in self.judge.execute(query)]

    async def _judge(self) -> None:
        events = self._events()
        self._judge_reports(events)
        self._judge_places(events)
        self._judge_runs(events)
        self._judge_cleaning()
        await self._judge_answers(events)
        loop = current()
        if not self.counts.keys() & {"freeze", "outage", "slow_commit", "crash", "retention"} and self.slowest < 2:
            self.faults += [f"a leader that lives is replaced: {line}" for line in loop.trace if " leader.lost" in line]
        self.faults += [line for line in loop.trace if " traceback " in line or " loop " in line or " 500 " in line]

    def _events(self) -> dict[int, tuple[str, list[Item], str | None]]:
        """Return each event's asset, items, and the run that it comes from."""
        rows = self.judge.execute(
            "SELECT e.id, a.name, e.extra, e.source_dag_id, e.source_run_id FROM asset_event e JOIN asset a ON a.id = e.asset_id"
        )
        return {
            row["id"]: (
                row["name"],
                items_of(json.loads(row["extra"])),
                row["source_run_id"] and f"{row['source_dag_id']} {row['source_run_id']}",
            )
            for row in rows
        }

    def _judge_reports(self, events: Mapping[int, tuple[str, list[Item], str | None]]) -> None:
        """Each item is reported, and only once, unless somebody asked for more or less."""
        named = Counter(item for _, items, _ in events.values() for item in items)
        everything: list[tuple[Item, str, bool]] = [
            *((each, "files", self.folder.is_there(each)) for each in self.folder.written),
            *((each, "rows", True) for each in ROWS),
        ]
        for item, watcher, is_there in everything:
            least, most = events_allowed(self.asked, watcher, is_there=is_there)
            if watcher not in self.asked.passed_over and not self.asked.is_past_retention:
                least = max(least, self.again.get(item, 0))
            if not least <= named[item] <= most:
                self.faults.append(f"{item} is named by {named[item]} events: between {least} and {most} are right")
        if unknown := named.keys() - {item for item, _, _ in everything}:
            self.faults.append(f"events name what there never was: {unknown}")

    def _judge_places(self, events: Mapping[int, tuple[str, list[Item], str | None]]) -> None:
        """At each job that waits for it, each event is in one place, and nothing that is due is left."""
        found: dict[int, dict[str, Counter[str]]] = {}
        for place, table in (("queue", "queued_event"), ("run", "run_asset_event"), ("dropped", "dropped_event")):
            for row in self.judge.execute(f"SELECT dag_id, event_id FROM {table}"):
                found.setdefault(row["event_id"], {}).setdefault(row["dag_id"], Counter())[place] += 1
        waiting = self._schedules()
        for number, (asset, _, _) in events.items():
            seen = SeenEvent(number=number, asset=asset, places=found.get(number, {}))
            jobs = [dag_id for dag_id, (assets, _) in waiting.items() if asset in assets]
            self.faults += places_faults(self.asked, seen, jobs)
        for dag_id, (_, schedule) in waiting.items():
            left = [events[number][0] for number, places in found.items() if places.get(dag_id, Counter())["queue"]]
            if not nothing_due_is_left(schedule, left):
                self.faults.append(f"{len(left)} queued events of {dag_id} are due and left: {left}")

    def _schedules(self) -> Mapping[str, tuple[set[str], Any]]:
        """Return the assets of each job's schedule, and the schedule as the model reads it."""
        both = {self.options["schedule"]: ["a", "b"]}
        schedules: dict[str, tuple[set[str], Any]] = {
            "one": ({"a"}, "a"),
            "two": ({"a", "b"}, both),
            "three": ({"c"}, "c"),
            "four": ({"b"}, "b"),
        }
        if self.options["assets"]:
            schedules["five"] = ({"other"}, "other")
        if self.has_late:
            schedules["late"] = ({"a"}, "a")
        return schedules

    def _judge_runs(self, events: Mapping[int, tuple[str, list[Item], str | None]]) -> None:
        """A run that succeeded has loaded what its events name, once, but for what may be left out."""
        named: dict[tuple[str, str], list[tuple[int, Item]]] = {}
        at_job: dict[str, set[int]] = {}
        for row in self.judge.execute("SELECT dag_id, run_id, event_id FROM run_asset_event ORDER BY event_id"):
            event_id = row["event_id"]
            at_job.setdefault(row["dag_id"], set()).add(event_id)
            of_run = named.setdefault((row["dag_id"], row["run_id"]), [])
            of_run.extend((event_id, item) for item in events[event_id][1])
        for row in self.judge.execute("SELECT dag_id, event_id FROM queued_event"):
            at_job.setdefault(row["dag_id"], set()).add(row["event_id"])
        newest: dict[str, dict[str, str]] = {}
        for dag_id, numbers in at_job.items():
            for version in (item for number in numbers for item in events[number][1] if isinstance(item, Version)):
                _note_newest(newest.setdefault(dag_id, {}), version)
        for (dag_id, _), loaded in self.cluster.table.items():
            for version in (item for item in loaded if isinstance(item, Version)):
                _note_newest(newest.setdefault(dag_id, {}), version)
        for row in self.judge.execute("SELECT dag_id, run_id, state, reason FROM run"):
            run = (row["dag_id"], row["run_id"])
            is_touched = run in self.asked.touched or run[0] in self.asked.decided
            if row["state"] == "success" and not is_touched:
                self._judge_loaded(run, [item for _, item in named.get(run, ())], newest.get(run[0], {}))
            excused = run in self.cluster.failed_by_job or run in self.cluster.could_not_read or is_touched
            if row["state"] == "failed" and not excused and not self.asked.is_past_retention:
                self.faults.append(f"{run} failed, and nothing failed: {row['reason']}")
        self._judge_successes(events)

    def _judge_loaded(self, run: tuple[str, str], named: Sequence[Item], newest: Mapping[str, str]) -> None:
        """What a run left out was removed by the cleaner, or a newer version of its path came to the job; the newest of a run counts."""
        loaded = Counter(self.cluster.table.get(run, ()))
        if unknown := loaded - Counter(named):
            self.faults.append(f"{run} loaded {sorted(map(str, unknown.elements()))}, which its events do not name")
        in_run: dict[str, str] = {}
        for version in (item for item in named if isinstance(item, Version)):
            _note_newest(in_run, version)
        for item in loaded:
            if isinstance(item, Version) and item.modified != in_run.get(item.path, item.modified):
                self.faults.append(f"{run} loaded {item}, and its events name a newer version")
        for item in Counter(named) - loaded:
            if isinstance(item, Version) and item.modified < in_run[item.path]:
                self.counts["superseded in a run"] += 1
            elif wrong := self._wrong_to_leave_out(item, newest):
                self.faults.append(f"{run} left out {item}{wrong}")

    def _wrong_to_leave_out(self, item: Item, newest: Mapping[str, str]) -> str:
        """Return what is wrong with leaving out an item of which the run has no newer version; '': nothing."""
        if not isinstance(item, Version):
            return ", which cannot be gone"
        if item in self.folder.gone:
            self.counts["superseded"] += 1
            return "" if newest.get(item.path, "") > item.modified else ", and no newer version came to the job"
        self.counts["left out because it was cleaned"] += 1
        is_cleaned = self.options["clean_source"] == "delete" and not self.folder.is_there(item)
        return "" if is_cleaned else ", which nobody removed"

    def _judge_successes(self, events: Mapping[int, tuple[str, list[Item], str | None]]) -> None:
        """Each success counts once, and none after a person has ended its run."""
        outlets = Counter(source for asset, _, source in events.values() if asset == "c" and source)
        wanted = Counter(f"{dag_id} {run_id}" for dag_id, run_id, _ in self.cluster.successes if dag_id == "one")
        if not self.asked.is_past_retention:
            open_keys = (each.key for each in self.cluster.drivers.values() if not each.is_over)
            unanswered = {f"{key.dag_id} {key.run_id}" for key in open_keys}  # of a tick that came just before the end
            for source in (outlets.keys() | wanted.keys()) - unanswered:
                if outlets[source] != wanted[source]:
                    self.faults.append(
                        f"{source} succeeded {wanted[source]} times, and its outlet has {outlets[source]} events"
                    )
        runs = Counter((dag_id, run_id) for dag_id, run_id, _ in self.cluster.successes)
        for run, number in runs.items():
            if number > 1 and run not in self.asked.touched and run[0] not in self.asked.decided:
                self.faults.append(f"{run} succeeded {number} times, and nobody asked for it")
        for run, at in self.ended.items():
            if self.cluster.reported_at.get(run, 0) > at and run[0] not in self.asked.decided:
                self.faults.append(f"a success of {run} is accepted after a person has ended it")
        tries = Counter(self.cluster.successes)
        self.faults += [
            f"the success of {each} was accepted {count} times" for each, count in tries.items() if count > 1
        ]

    def _judge_cleaning(self) -> None:
        """What is gone was deleted by the world, or every job had loaded it."""
        loaded: dict[str, set[Item]] = {}
        for (dag_id, _), items in self.cluster.table.items():
            loaded.setdefault(dag_id, set()).update(items)
        excused = self.asked.dropped.keys() | self.asked.decided | {dag_id for dag_id, _ in self.asked.touched}
        for version in self.folder.written:
            if self.folder.is_there(version) or version in self.folder.gone:
                continue
            is_other = self.options["assets"] and "/other" in version.path
            for dag_id in ("five",) if is_other else ("one", "two"):
                if version not in loaded.get(dag_id, set()) and dag_id not in excused:
                    self.faults.append(f"{version.path} was cleaned away, and {dag_id} never loaded it")
            self.counts["cleaned"] += 1

    async def _judge_answers(self, events: Mapping[int, tuple[str, list[Item], str | None]]) -> None:
        """What explain says of a file is what became of it."""
        reported = {item for _, items, _ in events.values() for item in items}
        loaded: dict[Item, set[str]] = {}
        for (dag_id, _), items in self.cluster.table.items():
            for item in items:
                loaded.setdefault(item, set()).add(dag_id)
        excused = self.asked.decided | {dag_id for dag_id, _ in self.asked.touched}
        for name in self.folder.names()[-3:]:
            version = self.folder.now(name)
            answer = await self.ask("GET", f"/api/v2/explain?item={version.path if version else ''}")
            if (
                version is None
                or answer is None
                or answer.status != 200
                or self.asked.passed_over
                or self.asked.is_past_retention
            ):
                continue
            jobs = ("five",) if self.options["assets"] and "/other" in version.path else ("one", "two")
            allowed = fates_allowed(
                is_reported=version in reported and not (self.cluster.failed_by_job or self.cluster.could_not_read),
                loaded_by=loaded.get(version, set()),
                jobs=jobs,
                is_there=True,
            )
            current().note(
                "explained", f"{name} {[each['state'] for each in answer.json['answers']]} {sorted(allowed)}"
            )
            for each in answer.json["answers"]:
                is_excused = not excused.isdisjoint({*jobs, "late"})
                if each["watcher"] == "files" and each["state"] not in allowed and not is_excused:
                    self.faults.append(
                        f"explain says {each['state']} of {version.path} ({each['sentence']}): {sorted(allowed)} are right"
                    )


def _note_newest(newest: dict[str, str], version: Version) -> None:
    newest[version.path] = max(newest.get(version.path, ""), version.modified)


def played(plan: Plan, root: Path, template: Path) -> Outcome:
    """Play a history to its end, in this process."""
    loop = VirtualLoop(plan.seed)
    asyncio.set_event_loop(loop)
    history = History(plan=plan, root=root, template=template)
    task = loop.create_task(history.play())
    return loop.run_until_complete(task)
