"""The parts of a configuration checked against each other, after each was validated by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import Any

from config.errors import KeyPath
from config.models.assets import AssetConfig
from config.models.ingest import INGEST
from config.models.jobs import JobConfig
from config.models.schedules import AssetCondition, Reference, references
from config.models.settings import Exchange, Settings
from config.names import did_you_mean
from config.reading.cleaning_checks import cleaning_faults
from config.reading.entries import Entries
from config.reading.partition_checks import disagreeing_parts, partition_faults


def cross_faults(entries: Entries) -> Iterator[tuple[KeyPath, str]]:
    """Yield the place and a sentence for each entry that does not go together with the others."""
    for name, job in entries.jobs.items():
        if job is not None:
            faults = (
                *ingest_faults(job, entries.assets, entries.connections),
                *_warm_faults(job, entries.settings),
                *partition_faults(job, entries.assets),
            )
            for place, sentence in faults:
                yield ("jobs", name, *place), sentence
    yield from disagreeing_parts(entries.assets)
    yield from _further_asset_faults(entries.assets)
    yield from cleaning_faults(entries.assets, entries.connections)
    if entries.settings is not None:
        for part in entries.settings.parts:
            yield from part.faults(entries.settings, entries)


def _further_asset_faults(assets: Mapping[str, AssetConfig | None]) -> Iterator[tuple[KeyPath, str]]:
    """Yield the place of each asset that a watcher's `assets` must not name, and a sentence."""
    for watcher in chain.from_iterable(asset.watchers.values() for asset in assets.values() if asset is not None):
        for name in watcher.facts.further_assets:
            place = ("assets", watcher.asset, "watchers", watcher.name, "assets", name)
            if name == watcher.asset:
                yield place, "is the watcher's own asset, which gets what no other asset does; remove it"
            elif name not in assets:
                yield place, f"unknown asset `{name}`; {did_you_mean(name, assets)}"


def _warm_faults(job: JobConfig, settings: Settings | None) -> Iterator[tuple[KeyPath, str]]:
    if job.spark.warm and settings and settings.scheduler.warm_memory_mb == 0:
        yield ("spark", "warm"), "needs memory: raise settings.scheduler.warm_memory_mb, which is 0"


def ingest_faults(
    job: JobConfig, assets: Mapping[str, AssetConfig | None], connections: Mapping[str, Any]
) -> Iterator[tuple[KeyPath, str]]:
    """Yield a place in the job and a sentence for everything that a job of `builtin:ingest` lacks.

    Assets and connections that have a problem themselves are None.
    """
    if job.spark.application != INGEST:
        return
    options = job.spark.options
    table = _outlet_of_table(job, assets)
    if table is None:
        yield ("outlets",), "must name exactly one asset: its store describes the table that builtin:ingest writes"
        return
    is_iceberg = options.get("format") == "iceberg"
    if is_iceberg:
        yield from _iceberg_faults(job, connections)
    # The rows of an Iceberg table are where its catalog says; only its bad records need a place.
    key = "bad_records" if is_iceberg else "target"
    asset = assets.get(table)
    place = options.get(key) or (asset.uri if asset else "s3:")
    if not place.startswith(("file:/", "s3:", "s3a:", "/")):
        remedy = f"give the outlet a uri that begins with file: or s3:, or set spark.options.{key}"
        yield (
            ("spark", "options", key) if options.get(key) else ("outlets",),
            f"`{place}` cannot hold a table: {remedy}",
        )
    if options.get("dedupe_key") and job.max_active_runs > 1:
        yield ("max_active_runs",), "must be 1 with dedupe_key: two runs at a time could load the same row"
    if missing := _missing_connection(job, assets, connections, writes_s3=place.startswith(("s3:/", "s3a:/"))):
        yield ("spark", "connections"), missing


def _outlet_of_table(job: JobConfig, assets: Mapping[str, AssetConfig | None]) -> str | None:
    """The outlet that stands for the job's table, or None if there is not exactly one."""
    target = job.spark.options.get("target")
    outlets = [outlet.name for outlet in job.outlets if isinstance(outlet, AssetCondition)]
    uris = {name: asset.uri for name in outlets if (asset := assets.get(name))}
    tables = [name for name in outlets if target in {None, uris.get(name)}] or outlets
    return tables[0] if len(tables) == 1 else None


def _iceberg_faults(job: JobConfig, connections: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    options, listed = job.spark.options, job.spark.connections
    if "." not in (options.get("target") or ""):
        yield ("spark", "options", "target"), "must be `<namespace>.<table>` with `format: iceberg`"
    catalogs = [name for name in listed if getattr(connections.get(name), "type", "iceberg") == "iceberg"]
    if not catalogs:
        yield ("spark", "connections"), "must list a connection of type iceberg: the table is written with it"
    for name in catalogs:
        storage = getattr(connections.get(name), "storage", None)
        if storage is not None and storage not in listed:
            yield ("spark", "connections"), f"must list `{storage}` too, the storage of `{name}`"


def _missing_connection(
    job: JobConfig, assets: Mapping[str, AssetConfig | None], connections: Mapping[str, Any], *, writes_s3: bool
) -> str | None:
    listed = job.spark.connections
    awaited = references(job.schedule.condition) if job.schedule else ()
    read = {asset.name for asset in (*awaited, *job.inlets) if isinstance(asset, AssetCondition)}
    for asset in filter(None, map(assets.get, sorted(read))):
        for watcher in asset.watchers.values():
            if watcher.connection is not None and watcher.connection not in listed:
                return f"must list `{watcher.connection}`: the watcher {watcher.name} reads the job's source with it"
    if writes_s3 and not any(getattr(connections.get(name), "type", "s3") == "s3" for name in listed):
        return "must list a connection of type s3: the table is written with it"
    return None


def job_cycles(jobs: Mapping[str, JobConfig], exchanges: Mapping[str, Exchange]) -> list[tuple[str, ...]]:
    """Circles of jobs in which the outlets of each one are in the schedule of the next.

    A neighbour stands among the jobs for whatever it does between the events it is sent and those it sends back. Circles are allowed, because a condition may end a circle, but worth a warning. Not every circle is listed, but breaking those
    that are listed breaks all of them.
    """
    writers: dict[Reference, set[str]] = {}
    for name, job in jobs.items():
        for outlet in job.outlets:
            writers.setdefault(outlet, set()).add(name)
    upstream: dict[str, set[str]] = {}
    for neighbour, exchange in exchanges.items():
        upstream[neighbour] = {
            writer for name in exchange.sent for writer in writers.get(AssetCondition(name=name), ())
        }
        for name in exchange.received:
            writers.setdefault(AssetCondition(name=name), set()).add(neighbour)
    upstream = {name: _upstream(job, writers) for name, job in jobs.items()} | upstream
    cycles = []
    while cycle := _first_cycle(upstream):
        cycles.append(tuple(cycle))
        upstream[cycle[-1]].discard(cycle[-2])
    return cycles


def _upstream(job: JobConfig, writers: Mapping[Reference, set[str]]) -> set[str]:
    awaited = references(job.schedule.condition) if job.schedule else ()
    return {writer for reference in awaited for writer in writers.get(replace(reference, where=None), ())}


def _first_cycle(upstream: Mapping[str, set[str]]) -> list[str]:
    """The jobs of a circle, each before the one it starts, and the first one again at the end; [] if there is no circle."""
    try:
        TopologicalSorter(upstream).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []
