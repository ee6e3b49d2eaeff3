"""What became of an event at its jobs, in words: a clause for each job, in the order in which an answer considers fates (pure)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Final

from store.fates import MEANINGS, Fate, urgency
from store.runs.fates import EventAtJob


def fates_in_words(at_jobs: Sequence[EventAtJob], filtered: Collection[str], runs_since: datetime) -> Iterator[str]:
    """Yield the clauses. `filtered` are jobs whose schedules have a `where`; runs that ended before `runs_since` are removed."""
    if not at_jobs:
        yield "no job is scheduled on its asset"
    for fate, group in groupby(sorted(at_jobs, key=lambda each: urgency(each.fate)), key=lambda each: each.fate):
        jobs = [*group]
        if fate is Fate.NOT_TAKEN:
            yield _not_taken([each.dag_id for each in jobs], filtered, is_all=len(jobs) == len(at_jobs))
        elif fate is Fate.QUEUED:
            yield from map(_in_queued_run, [each for each in jobs if each.run is not None])
            if waiting := [each.dag_id for each in jobs if each.run is None]:
                yield f"it waits in the queue of {', '.join(waiting)} for the rest of the schedule"
        elif fate is Fate.UNKNOWN:
            yield from (_unknown(each, runs_since) for each in jobs)
        else:
            yield from map(_CLAUSES.get(fate, _in_general), jobs)


def _not_taken(jobs: Sequence[str], filtered: Collection[str], *, is_all: bool) -> str:
    names = ", ".join(jobs)
    if not is_all:
        return f"the schedule of {names} did not take it"
    if its := [name for name in jobs if name in filtered]:
        return f"no schedule took it when it was reported; by now {names} waits for its asset ({', '.join(its)} with a `where`)"
    return f"no job was scheduled on its asset when it was reported; by now {names} is"


def _in_queued_run(each: EventAtJob) -> str:
    assert each.run is not None  # noqa: S101  of the caller
    return f"run {each.run.run_id} of {each.dag_id} has it and waits to start{_because(each)}"


def _running(each: EventAtJob) -> str:
    return f"run {_run_id(each)} of {each.dag_id} is running with it"


def _failed(each: EventAtJob) -> str:
    return f"run {_run_id(each)} of {each.dag_id} failed{_because(each)}{_removal(each)}"


def _loaded(each: EventAtJob) -> str:
    if each.run is None:
        return f"{each.dag_id} has loaded it by run {_run_id(each)}{_removal(each)}"
    bad = f" and left out {each.run.bad_records} bad records of all its items" if each.run.bad_records else ""
    return f"run {each.run.run_id} of {each.dag_id} has succeeded with it{bad}"


def _cleaned(each: EventAtJob) -> str:
    if each.skipped_for is Fate.CLEANED:
        return f"run {_run_id(each)} of {each.dag_id} was skipped, because nothing of it was left{_removal(each)}"
    if each.is_left_out or (each.run is not None and each.run.state != "success"):
        return f"run {_run_id(each)} of {each.dag_id} goes without it{_removal(each)}"
    if each.run is None and each.forgotten_run is None:
        return f"the next run of {each.dag_id} goes without it"
    return _loaded(each)


def _dropped(each: EventAtJob) -> str:
    if each.run is not None:
        return f"its run {each.run.run_id} of {each.dag_id} was deleted"
    when = "" if each.dropped_at is None else f" at {moment_in_words(each.dropped_at)}"
    if each.dropped_by is None:
        return f"it was dropped with the queue of {each.dag_id}{when}, when the job was removed"
    return f"taken off the queue of {each.dag_id} by {each.dropped_by}{when}"


def _unknown(each: EventAtJob, runs_since: datetime) -> str:
    if each.forgotten_at is not None:
        when = moment_in_words(each.forgotten_at)
        return f"its run of {each.dag_id} was removed at {when}, and what that had made of it was not recorded then"
    removed = (
        f"runs that ended before {moment_in_words(runs_since)} have been removed (settings.store.run_retention_days)"
    )
    return f"no run of {each.dag_id} that is kept has it, and {removed}"


def _superseded(each: EventAtJob) -> str:
    return (
        f"run {_run_id(each)} of {each.dag_id} left it out{_removal(each)}, because a newer version of its path counts"
    )


def _in_general(each: EventAtJob) -> str:
    return f"{each.fate.replace('_', ' ')} at {each.dag_id}: {MEANINGS[each.fate]}"


_CLAUSES: Final[Mapping[Fate, Callable[[EventAtJob], str]]] = {
    Fate.FAILED: _failed,
    Fate.RUNNING: _running,
    Fate.DROPPED: _dropped,
    Fate.SUPERSEDED: _superseded,
    Fate.LOADED: _loaded,
    Fate.CLEANED: _cleaned,
    Fate.MOVED: _loaded,
}


def _run_id(each: EventAtJob) -> str:
    return each.run.run_id if each.run is not None else each.forgotten_run or "of an unknown id"


def _removal(each: EventAtJob) -> str:
    """Return that the clean-up has removed the run, as the end of a clause; empty if it has not."""
    if each.forgotten_at is None:
        return ""
    ended = "" if each.ended_at is None else f"ended at {moment_in_words(each.ended_at)} and "
    removed = f"was removed at {moment_in_words(each.forgotten_at)} (settings.store.run_retention_days)"
    return f", which {ended}{removed}"


def _because(each: EventAtJob) -> str:
    return f": {each.run.reason}" if each.run is not None and each.run.reason else ""


def moment_in_words(moment: datetime) -> str:
    return moment.replace(microsecond=0, tzinfo=None).isoformat() + "Z"
