"""What jobs need of the rest of the configuration, and of each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from config.document import KeyPath
from config.models import INGEST, AssetConfig, JobConfig
from config.schedules import AssetCondition, Reference, references


def ingest_faults(
    job: JobConfig, assets: Mapping[str, AssetConfig | None], connections: Mapping[str, Any]
) -> Iterator[tuple[KeyPath, str]]:
    """What a job of `builtin:ingest` lacks: where in the job, and a sentence each.

    Assets and connections that are wrong in themselves are None.
    """
    if job.spark.application != INGEST:
        return
    target = job.spark.options.get("target")
    outlets = [outlet.name for outlet in job.outlets if isinstance(outlet, AssetCondition)]
    uris = {name: asset.uri for name in outlets if (asset := assets.get(name))}
    tables = [name for name in outlets if target in {None, uris.get(name)}] or outlets
    if len(tables) != 1:
        yield ("outlets",), "must name one asset, whose store will tell of the table that builtin:ingest writes"
        return
    place = target or uris.get(tables[0], "s3:")
    if not place.startswith(("file:/", "s3:", "s3a:", "/")):
        remedy = "give the outlet a uri that begins with file: or s3:, or set spark.options.target"
        yield ("spark", "options", "target") if target else ("outlets",), f"`{place}` is no place for a table: {remedy}"
    if job.spark.options.get("dedupe_key") and job.max_active_runs > 1:
        yield ("max_active_runs",), "must be 1 with dedupe_key: two runs at a time could load the same row"
    if missing := _missing_connection(job, assets, connections, writes_s3=place.startswith(("s3:/", "s3a:/"))):
        yield ("spark", "connections"), missing


def _missing_connection(
    job: JobConfig, assets: Mapping[str, AssetConfig | None], connections: Mapping[str, Any], *, writes_s3: bool
) -> str | None:
    listed = job.spark.connections
    awaited = references(job.schedule.condition) if job.schedule else ()
    read = {asset.name for asset in (*awaited, *job.inlets) if isinstance(asset, AssetCondition)}
    for asset in filter(None, map(assets.get, sorted(read))):
        for watcher in asset.watchers.values():
            if watcher.connection is not None and watcher.connection not in listed:
                return f"must list `{watcher.connection}`, by which {watcher.name} finds what is to be read"
    if writes_s3 and not any(getattr(connections.get(name), "type", "s3") == "s3" for name in listed):
        return "must list a connection of type s3, by which the table is written"
    return None


def job_cycles(jobs: Mapping[str, JobConfig]) -> list[tuple[str, ...]]:
    """Jobs that start each other in a circle, which is allowed, for a condition may end it, and worth a warning.

    Circles of jobs in which each one's outlets are in the schedule of the next; enough of them to have each circle broken.
    """
    writers: dict[Reference, set[str]] = {}
    for name, job in jobs.items():
        for outlet in job.outlets:
            writers.setdefault(outlet, set()).add(name)
    upstream = {name: _upstream(job, writers) for name, job in jobs.items()}
    cycles = []
    while cycle := _first_cycle(upstream):
        cycles.append(tuple(cycle))
        upstream[cycle[-1]].discard(cycle[-2])
    return cycles


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
