"""Jobs that start each other in a circle: allowed, for a condition may end it, and worth a warning."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

from config.models import JobConfig
from config.schedules import Reference, references


def job_cycles(jobs: Mapping[str, JobConfig]) -> list[tuple[str, ...]]:
    """Circles of jobs in which each one's outlets are in the schedule of the next; enough of them to have each circle broken."""
    writers: dict[Reference, set[str]] = {}
    for name, job in jobs.items():
        for outlet in job.outlets:
            writers.setdefault(outlet, set()).add(name)
    upstream = {name: _upstream(job, writers) for name, job in jobs.items()}
    found = []
    while cycle := _first_cycle(upstream):
        found.append(tuple(cycle))
        upstream[cycle[-1]].discard(cycle[-2])
    return found


def _upstream(job: JobConfig, writers: Mapping[Reference, set[str]]) -> set[str]:
    awaited = references(job.schedule.condition) if job.schedule else ()
    return {writer for reference in awaited for writer in writers.get(reference, ())}


def _first_cycle(upstream: Mapping[str, set[str]]) -> list[str]:
    """Each job of a circle before the one it starts, the first one again at the end; [] when there is none."""
    try:
        TopologicalSorter(upstream).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []
