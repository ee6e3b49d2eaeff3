"""What must hold: while a history goes on, at each look, and at its end, when everything has healed and nothing moves."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from store.fates import LEFT_OUT, RUN_STATES
from tests.service.scheduler.allowed_fates import (
    AskedFor,
    Fate,
    SeenEvent,
    events_allowed,
    fates_allowed,
    moves_faults,
    nothing_complete_is_left,
    nothing_due_is_left,
    places_faults,
    runs_faults,
)
from tests.service.scheduler.schedule_model import MARKS, NAMES, ModelEvent
from tests.simulation.cluster import Cluster, Item, items_of
from tests.simulation.daemons import Answer
from tests.simulation.options import VOUCHES, Options
from tests.simulation.sources import ROWS, Folder, Version
from tests.simulation.virtual import current

_PLACES: Final = """
    SELECT dag_id, event_id, 'queued' AS state, NULL AS run_id FROM queued_event
    UNION ALL SELECT dag_id, event_id, run.state, run_id FROM run_asset_event JOIN run USING (dag_id, run_id)
    UNION ALL SELECT dag_id, event_id, coalesce(outcome, 'dropped'), NULL FROM dropped_event
"""
_BREAK_LEASES: Final = {"freeze", "outage", "slow_commit", "crash", "retention", "retention_of_runs"}
_PLAIN: Final = 0
"""The number of what an event says that names neither a marker nor a manifest."""
_FILES_AT_ONCE: Final = 1000
"""More than the files that one event names."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """A stored event: its asset, the items that it names, and the run that it comes from."""

    asset: str
    items: Sequence[Item]
    source: str | None
    is_data: bool
    """Whether its files are data, and vouch for no others."""


@dataclass(eq=False, kw_only=True)
class Judge:
    """Compares what the product has stored and says with what the world and the people of a history did."""

    database: sqlite3.Connection
    options: Options
    folder: Folder
    cluster: Cluster
    asked: AskedFor
    counts: Counter[str]
    ask: Callable[[str, str], Awaitable[Answer | None]]
    faults: list[str] = field(default_factory=list)
    again: dict[Item, int] = field(default_factory=dict)
    """How many events must name an item at least, because its watcher was told to report it again."""
    ended: dict[tuple[str, str], float] = field(default_factory=dict)
    """When a person ended a run for good."""
    _fates: Mapping[tuple[str, int], Fate] = field(default_factory=dict)
    _runs: Mapping[tuple[str, str], str] = field(default_factory=dict)
    _had: set[int] = field(default_factory=set)
    """The events that were in runs of the job `one` at some look."""

    def look(self) -> None:
        """Compare the states of all events and runs with those at the last look."""
        fates: dict[tuple[str, int], Fate] = {}
        for dag_id, event_id, state, run_id in self.database.execute(_PLACES).fetchall():
            if (dag_id, event_id) in fates:
                self.fault(f"event {event_id} is at {dag_id} in two places")
            fates[dag_id, event_id] = Fate(str(RUN_STATES.get(state, state)), run_id)
            if dag_id == "one" and (run_id is not None or state in ("loaded", "failed")):
                self._had.add(event_id)
        runs = {
            (dag_id, run_id): state
            for dag_id, run_id, state in self.database.execute("SELECT dag_id, run_id, state FROM run").fetchall()
        }
        for sentence in (*moves_faults(self.asked, self._fates, fates), *runs_faults(self.asked, self._runs, runs)):
            self.fault(sentence)
        self._fates, self._runs = fates, runs
        self.counts["looks"] += 1

    def rows_named(self) -> Counter[int]:
        """Return how many events name each row."""
        return Counter(item for event in self._events().values() for item in event.items if isinstance(item, int))

    def fault(self, sentence: str) -> None:
        if sentence not in self.faults:
            self.faults.append(sentence)

    async def at_rest(self, late: Collection[str], *, slowest: float) -> None:
        """Judge the end. `late` are the jobs with catchup that there are; `slowest` is the pace of the slowest time."""
        self.look()
        events = self._events()
        self._judge_reports(events)
        self._judge_places(events, late)
        self._judge_partitions(events)
        self._judge_runs(events)
        self._judge_cleaning()
        await self._judge_answers(events)
        self.faults += self.cluster.faults
        loop = current()
        if not self.counts.keys() & _BREAK_LEASES and slowest < 2:
            self.faults += [f"a leader that lives is replaced: {line}" for line in loop.trace if " leader.lost" in line]
        self.faults += [line for line in loop.trace if " traceback " in line or " loop " in line or " 500 " in line]

    def _events(self) -> dict[int, Event]:
        rows = self.database.execute(
            "SELECT e.id, a.name, e.extra, e.source_dag_id, e.source_run_id FROM asset_event e JOIN asset a ON a.id = e.asset_id"
        )
        return {
            row["id"]: Event(
                asset=row["name"],
                items=items_of(extra := json.loads(row["extra"])),
                source=row["source_run_id"] and f"{row['source_dag_id']} {row['source_run_id']}",
                is_data=not extra.get("last"),
            )
            for row in rows
        }

    def _judge_reports(self, events: Mapping[int, Event]) -> None:
        """Each item is reported, and only once, unless somebody asked for more or less."""
        named = Counter(item for event in events.values() for item in event.items)
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

    def _judge_places(self, events: Mapping[int, Event], late: Collection[str]) -> None:
        """At each job that waits for it, each event is in one place, and nothing that is due is left."""
        found: dict[int, dict[str, Counter[str]]] = {}
        forgotten = "CASE WHEN outcome IN ('loaded', 'failed') THEN 'forgotten' ELSE 'dropped' END"
        places = (("'queue'", "queued_event"), ("'run'", "run_asset_event"), (forgotten, "dropped_event"))
        for place, table in places:
            for row in self.database.execute(f"SELECT dag_id, event_id, {place} AS place FROM {table}"):
                found.setdefault(row["event_id"], {}).setdefault(row["dag_id"], Counter())[row["place"]] += 1
        waiting = self._schedules(late)
        for number, event in events.items():
            seen = SeenEvent(number=number, asset=event.asset, places=found.get(number, {}))
            jobs = [dag_id for dag_id, (assets, _) in waiting.items() if event.asset in assets]
            self.faults += places_faults(self.asked, seen, jobs)
        for dag_id, (_, schedule) in waiting.items():
            left = [events[number].asset for number, at in found.items() if at.get(dag_id, Counter())["queue"]]
            is_divided = dag_id == "one" and self.options["complete"] is not None
            if not is_divided and not nothing_due_is_left(schedule, left):
                self.faults.append(f"{len(left)} queued events of {dag_id} are due and left: {left}")

    def _judge_partitions(self, events: Mapping[int, Event]) -> None:
        """Of partitions that need to be complete, nothing is left but what lacks something, as the model of schedules has it."""
        if self.options["complete"] is None:
            return
        split = {number: [*self._split(number, event)] for number, event in events.items() if event.asset == "a"}
        had: dict[str | None, set[int]] = {}
        for number in self._had & split.keys():
            for piece, each in split[number]:
                had.setdefault(self._group(each), set()).add(piece)
        at = {
            state: {
                row["event_id"] for row in self.database.execute(f"SELECT event_id FROM {table} WHERE dag_id = 'one'")
            }
            for state, table in (("queued", "queued_event"), ("dropped", "dropped_event"))
        }
        queued, dropped = ({piece for number in of & split.keys() for piece, _ in split[number]} for of in at.values())
        pieces = dict(each for some in split.values() for each in some)
        if not nothing_complete_is_left(self.options.model, pieces, queued, had, dropped):
            left = sorted(pieces[each].file or "" for each in queued)
            self.faults.append(f"the partitions of one are complete and left, or their deadline is over: {left}")
        self.counts["incomplete partitions"] += len({self._group(pieces[each]) for each in queued})

    def _split(self, number: int, event: Event) -> Iterator[tuple[int, ModelEvent]]:
        """Yield an event of each file that an event names, as the model has them."""
        for place, item in enumerate(event.items):
            assert isinstance(item, Version)
            name = item.path.rpartition("/")[2]
            says = {VOUCHES["marker"]: MARKS, VOUCHES["manifest"]: NAMES}.get(name, _PLAIN)
            names = self.folder.names_in.get(item)
            key = "|".join(re.findall("(?:dt|region)=([^/]*)", item.path)) or None
            yield (
                number * _FILES_AT_ONCE + place,
                ModelEvent(asset=self.options.model.schedule, says=says, key=key, file=item.path, names=names),
            )

    def _group(self, event: ModelEvent) -> str | None:
        """Return the key of the partition of an event."""
        return event.key if self.options.model.by is None or event.key is None else event.key.partition("|")[0]

    def _schedules(self, late: Collection[str]) -> Mapping[str, tuple[set[str], Any]]:
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
        return {**schedules, **{dag_id: ({"a"}, "a") for dag_id in late}}

    def _judge_runs(self, events: Mapping[int, Event]) -> None:
        """A run that succeeded has loaded what its events name, once, but for what may be left out."""
        named: dict[tuple[str, str], list[tuple[int, Item]]] = {}
        at_job: dict[str, set[int]] = {}
        for row in self.database.execute("SELECT dag_id, run_id, event_id FROM run_asset_event ORDER BY event_id"):
            event_id = row["event_id"]
            at_job.setdefault(row["dag_id"], set()).add(event_id)
            of_run = named.setdefault((row["dag_id"], row["run_id"]), [])
            of_run.extend((event_id, item) for item in events[event_id].items if events[event_id].is_data)
        other = "SELECT dag_id, event_id FROM queued_event UNION ALL SELECT dag_id, event_id FROM dropped_event"
        for row in self.database.execute(other):  # a newer version may have been taken off since it counted
            at_job.setdefault(row["dag_id"], set()).add(row["event_id"])
        newest: dict[str, dict[str, str]] = {}
        for dag_id, numbers in at_job.items():
            for version in (item for number in numbers for item in events[number].items if isinstance(item, Version)):
                _note_newest(newest.setdefault(dag_id, {}), version)
        for (dag_id, _), loaded in self.cluster.table.items():
            for version in (item for item in loaded if isinstance(item, Version)):
                _note_newest(newest.setdefault(dag_id, {}), version)
        for row in self.database.execute("SELECT dag_id, run_id, state, reason FROM run"):
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

    def _judge_successes(self, events: Mapping[int, Event]) -> None:
        """Each success counts once, and none after a person has ended its run."""
        outlets = Counter(each.source for each in events.values() if each.asset == "c" and each.source)
        wanted = Counter(f"{dag_id} {run_id}" for dag_id, run_id, _ in self.cluster.successes if dag_id == "one")
        if not self.asked.is_past_retention:
            open_keys = (each.key for each in self.cluster.drivers.values() if not each.is_over)
            unanswered = {f"{key.dag_id} {key.run_id}" for key in open_keys}  # of a tick that came just before the end
            for source in (outlets.keys() | wanted.keys()) - unanswered:
                if outlets[source] != wanted[source]:
                    self.faults.append(
                        f"{source} succeeded {wanted[source]} times, and its outlet has {outlets[source]} events"
                    )
            self._judge_outlets(outlets, unanswered)
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

    def _judge_outlets(self, outlets: Mapping[str, int], unanswered: Collection[str]) -> None:
        """A run that counts as a success has told its outlet, whatever its driver was answered."""
        of_drivers = {f"{each.key.dag_id} {each.key.run_id}" for each in self.cluster.drivers.values()}
        query = "SELECT run_id, reason FROM run WHERE dag_id = 'one' AND state = 'success'"
        for row in self.database.execute(query):
            run, source = ("one", row["run_id"]), f"one {row['run_id']}"
            is_excused = run in self.asked.touched or "one" in self.asked.decided or row["reason"] in LEFT_OUT
            if source in of_drivers - {*unanswered} and not outlets.get(source) and not is_excused:
                self.faults.append(f"{source} has succeeded, and its outlet has no event")

    def _loaded(self) -> Mapping[str, set[Item]]:
        """Return what each job has loaded, with the files that vouch for others."""
        loaded = {dag_id: {*items} for dag_id, items in self.cluster.vouched.items()}
        for (dag_id, _), items in self.cluster.table.items():
            loaded.setdefault(dag_id, set()).update(items)
        return loaded

    def _jobs_of(self, version: Version) -> Sequence[str]:
        """Return the jobs that every file of this name is for."""
        is_other = self.options["assets"] and "/other" in version.path
        return ("five",) if is_other else ("one", "two")

    def _judge_cleaning(self) -> None:
        """What is gone was deleted by the world, or every job had loaded it."""
        loaded = self._loaded()
        excused = self.asked.dropped.keys() | self.asked.decided | {dag_id for dag_id, _ in self.asked.touched}
        for version in filter(self.folder.was_cleaned, self.folder.written):
            for dag_id in self._jobs_of(version):
                if version not in loaded.get(dag_id, set()) and dag_id not in excused:
                    self.faults.append(f"{version.path} was cleaned away, and {dag_id} never loaded it")
            self.counts["cleaned"] += 1

    async def _judge_answers(self, events: Mapping[int, Event]) -> None:
        """What explain says of a file is what became of it."""
        if self.asked.passed_over or self.asked.is_past_retention:
            return
        reported = {item for event in events.values() for item in event.items}
        loaded = self._loaded()
        excused = self.asked.decided | {dag_id for dag_id, _ in self.asked.touched}
        there = [version for name in self.folder.names()[-3:] if (version := self.folder.now(name)) is not None]
        cleaned = [*filter(self.folder.was_cleaned, self.folder.written)][-2:]
        for version in (*there, *(each for each in cleaned if not Path(each.path).exists())):
            answer = await self.ask("GET", f"/api/v2/explain?item={version.path}")
            if answer is None or answer.status != 200:
                continue
            jobs = self._jobs_of(version)
            allowed = fates_allowed(
                is_reported=version in reported and not (self.cluster.failed_by_job or self.cluster.could_not_read),
                loaded_by=[dag_id for dag_id, items in loaded.items() if version in items],
                jobs=jobs,
                is_there=version in there,
            )
            states = [each["state"] for each in answer.json["answers"]]
            current().note("explained", f"{version.path} {states} {sorted(allowed)}")
            is_excused = not excused.isdisjoint(jobs) or any(dag_id.startswith("late") for dag_id in excused)
            for each in answer.json["answers"]:
                if each["watcher"] == "files" and each["state"] not in allowed and not is_excused:
                    self.faults.append(
                        f"explain says {each['state']} of {version.path} ({each['sentence']}): {sorted(allowed)} are right"
                    )


def _note_newest(newest: dict[str, str], version: Version) -> None:
    newest[version.path] = max(newest.get(version.path, ""), version.modified)
