"""The configuration's mirror: assets, watchers, jobs and the edges between them, applied in one transaction.

Queue rows come from these tables, never from a process's own file. The last applied configuration wins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from sqlalchemy import (
    Column,
    Insert,
    RowMapping,
    Text,
    Update,
    and_,
    bindparam,
    cast,
    delete,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import dropped_events, edges_of_jobs, watcher_assets
from store.database import configuration_lock
from store.database.schema import (
    ALIAS_EDGES,
    ASSET_EDGES,
    asset,
    asset_alias,
    asset_interest,
    database_now,
    job,
    watcher,
)
from store.errors import Conflict
from store.keys import JobDefinition, Role
from store.references import has_where


@dataclass(frozen=True, kw_only=True)
class DeclaredAsset:
    """An asset as the YAML names it; `extra` is a JSON object's text."""

    name: str
    uri: str
    group: str
    extra: str
    expect_every_seconds: int | None = None
    expect_by: str | None = None
    partition_parts: str | None = None
    """The names of the parts of its events' partition keys, as the text of a JSON list; None: it names none."""


@dataclass(frozen=True, kw_only=True)
class DeclaredWatcher:
    """A watcher and the asset it belongs to."""

    name: str
    asset: str
    trigger: str
    definition: str | None = None
    """A hash of its definition; None: any process may host it, whatever definition it knows."""
    further_assets: Collection[str] = ()
    """The assets besides its own that it has events of."""


@dataclass(frozen=True, kw_only=True)
class DeclaredJob:
    """A job with its edges by name."""

    dag_id: str
    task_id: str
    definition: JobDefinition
    paused: bool
    assets: Mapping[Role, Collection[str]] = field(default_factory=dict)
    aliases: Mapping[Role, Collection[str]] = field(default_factory=dict)

    @property
    def columns(self) -> dict[str, Any]:
        """The columns that the table keeps of it, without the edges."""
        cron = self.definition.cron
        return {
            "task_id": self.task_id,
            "definition": self.definition,
            "cron": None if cron is None else str(cron),
            "partitioned": self.definition.batch.is_partitioned,
            "joint": self.definition.joint,
        }


@dataclass(frozen=True, kw_only=True)
class AppliedCatalog:
    """What the kernel has written of a configuration, for the features that write after it."""

    asset_ids: Mapping[str, int]
    """The ids of the configured assets, by name."""
    jobs: Mapping[str, JobDefinition]
    """The configured jobs."""
    jobs_before: Mapping[str, JobDefinition]
    """All jobs that were known before, with their definitions of that time, also those that are not configured any more."""


@dataclass(frozen=True, kw_only=True)
class AppliedFeature:
    """What a feature made of a configuration."""

    interest: Collection[int] = ()
    """The ids of the assets in the transactions of whose events the feature takes part from now on."""
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Numbers by job that the audit keeps, under words of the feature's."""


NOTHING_APPLIED: Final = AppliedFeature()


class Applies(Protocol):
    """What a feature writes of a configuration, in the transaction that applies it: into its own tables.

    Nobody appends events meanwhile. Jobs, their edges and their queues are as configured; the watchers' rows are not yet.
    """

    async def __call__(self, connection: AsyncConnection, applied: AppliedCatalog, /) -> AppliedFeature: ...


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A whole configuration, as far as the database mirrors it."""

    hash: str
    assets: Sequence[DeclaredAsset]
    watchers: Sequence[DeclaredWatcher]
    jobs: Sequence[DeclaredJob]
    aliases: Mapping[str, str] = field(default_factory=dict)
    """The groups of the aliases, by name."""
    features: Mapping[str, Applies] = field(default_factory=dict)
    """What features have to write of it, by their names, in the order in which they do."""


@dataclass(frozen=True, kw_only=True)
class Applied:
    """The result of applying a configuration: asset ids by name, and how many queued events of removed jobs were dropped."""

    asset_ids: Mapping[str, int]
    dequeued: int
    kept: Mapping[str, int]
    """How many queued events each job's schedule does not wait for, without jobs that have none. They go with the next run."""
    counts: Mapping[str, Mapping[str, int]]
    """Further numbers by job, which features have counted, by their words."""


async def apply(connection: AsyncConnection, declared: Declared, dialect: str) -> Applied:
    """Make the mirror equal to the configuration; what is equal already is not touched.

    Raises `Conflict` if a uri belongs to an asset that is not configured. Meanwhile nobody appends events, and nobody
    else applies. The rest follows the order in which the transaction of a detection takes its locks: assets, edges,
    watchers.
    """
    await configuration_lock.exclude(connection)
    await configuration_lock.remember_hash(connection, declared.hash, dialect)
    asset_ids = await _apply_assets(connection, declared.assets)
    alias_ids = await _apply_aliases(connection, declared.aliases)
    before = await _apply_jobs(connection, declared.jobs)
    for role, table in ASSET_EDGES.items():
        edges = {(j.dag_id, asset_ids[name]) for j in declared.jobs for name in j.assets.get(role, ())}
        await edges_of_jobs.apply(connection, table, edges)
    for role, table in ALIAS_EDGES.items():
        edges = {(j.dag_id, alias_ids[name]) for j in declared.jobs for name in j.aliases.get(role, ())}
        await edges_of_jobs.apply(connection, table, edges)
    await edges_of_jobs.mark_filtered(connection, [j.dag_id for j in declared.jobs if has_where(j.definition.schedule)])
    dequeued = await dropped_events.drop_queues_of_removed_jobs(connection)
    kept = await dropped_events.kept(connection)
    jobs = {j.dag_id: j.definition for j in declared.jobs}
    catalog = AppliedCatalog(asset_ids=asset_ids, jobs=jobs, jobs_before=before)
    counts = await _apply_features(connection, declared.features, catalog)
    await _apply_watchers(connection, declared.watchers, asset_ids)
    return Applied(asset_ids=asset_ids, dequeued=dequeued, kept=kept, counts=counts)


async def _apply_features(
    connection: AsyncConnection, features: Mapping[str, Applies], catalog: AppliedCatalog
) -> Mapping[str, Mapping[str, int]]:
    """Let features write what concerns them, and keep in which assets they are interested; return what they counted.

    The interest of a feature that this process does not have stays, for a process that has it.
    """
    i = asset_interest.c
    configured: set[tuple[int, str]] = set()
    counts: dict[str, Mapping[str, int]] = {}
    for name, apply_feature in features.items():
        applied = await apply_feature(connection, catalog)
        configured |= {(asset_id, name) for asset_id in applied.interest}
        counts |= applied.counts
    rows = await connection.execute(select(i.asset_id, i.feature).where(i.feature.in_(features)))
    present = {(row.asset_id, row.feature) for row in rows}
    for asset_id, name in sorted(present - configured):
        await connection.execute(delete(asset_interest).where(i.asset_id == asset_id, i.feature == name))
    if new := [{"asset_id": asset_id, "feature": name} for asset_id, name in sorted(configured - present)]:
        await connection.execute(insert(asset_interest), new)
    return counts


async def _apply_assets(connection: AsyncConnection, declared: Sequence[DeclaredAsset]) -> dict[str, int]:
    present = {row["id"]: row for row in (await connection.execute(select(asset))).mappings()}
    ids = _matched(declared, present.values())
    _refuse_stolen_uris(declared, ids, present.values())
    changed = [a for a in declared if a.name in ids and _differs(present[ids[a.name]], _values(a))]
    await _make_way(connection, [ids[a.name] for a in changed if _moves(present[ids[a.name]], a)])
    await _update_each(
        connection,
        asset.c.id,
        {ids[a.name]: _values(a) for a in changed},
        update(asset).values(updated_at=database_now()),
    )
    if missing := [_values(a) for a in declared if a.name not in ids]:
        new = insert(asset).values(created_at=database_now(), updated_at=database_now())
        rows = await connection.execute(new.returning(asset.c.name, asset.c.id), missing)
        ids |= {row.name: row.id for row in rows}
    gone = and_(asset.c.origin == "yaml", asset.c.active, asset.c.id.not_in(ids.values()))
    await connection.execute(update(asset).where(gone).values(active=False, updated_at=database_now()))
    return ids


def _matched(declared: Sequence[DeclaredAsset], present: Iterable[RowMapping]) -> dict[str, int]:
    """Return which stored asset each declared one is.

    The one of its name, or of its uri if no other's name claims it.
    """
    by_name = {row["name"]: row["id"] for row in present}
    by_uri = {row["uri"]: row["id"] for row in present}
    ids = {a.name: by_name[a.name] for a in declared if a.name in by_name}
    claimed = set(ids.values())
    renamed = {a.name: by_uri[a.uri] for a in declared if a.name not in ids and a.uri in by_uri}
    return ids | {name: asset_id for name, asset_id in renamed.items() if asset_id not in claimed}


def _refuse_stolen_uris(
    declared: Sequence[DeclaredAsset], ids: Mapping[str, int], present: Iterable[RowMapping]
) -> None:
    kept = set(ids.values())
    owners = {row["uri"]: row["name"] for row in present if row["id"] not in kept}
    for a in declared:
        if a.uri in owners:
            raise Conflict(
                f"the uri of asset {a.name} belongs to asset {owners[a.uri]}, which is not configured; "
                f"give {a.name} another uri, or configure it under the name {owners[a.uri]}"
            )


def _values(declared: DeclaredAsset) -> dict[str, Any]:
    return {**vars(declared), "origin": "yaml", "active": True}


def _moves(row: RowMapping, declared: DeclaredAsset) -> bool:
    return (row["name"], row["uri"]) != (declared.name, declared.uri)


async def _make_way(connection: AsyncConnection, moving: Collection[int]) -> None:
    """Free names and uris: they are unique at every moment, and two assets may have exchanged theirs."""
    nobody = literal("~moving/") + cast(asset.c.id, Text)
    await connection.execute(update(asset).where(asset.c.id.in_(moving)).values(name=nobody, uri=nobody))


async def _apply_aliases(connection: AsyncConnection, groups: Mapping[str, str]) -> Mapping[str, int]:
    """Mirror the aliases. One that was removed keeps its associations, in case it comes back."""
    rows = {name: {"group": group} for name, group in groups.items()}
    change = update(asset_alias)
    await _mirror(connection, asset_alias.c.name, rows, new=insert(asset_alias), changed=change, gone=change)
    return {row.name: row.id for row in await connection.execute(select(asset_alias.c.name, asset_alias.c.id))}


async def _apply_watchers(
    connection: AsyncConnection, declared: Sequence[DeclaredWatcher], asset_ids: Mapping[str, int]
) -> None:
    rows = {
        w.name: {"asset_id": asset_ids[w.asset], "trigger": w.trigger, "definition": w.definition} for w in declared
    }
    gone = update(watcher).values(state="stopped")
    await _mirror(connection, watcher.c.name, rows, new=insert(watcher), changed=update(watcher), gone=gone)
    further = {(each.name, asset_ids[name]) for each in declared for name in each.further_assets}
    await watcher_assets.apply(connection, further)


async def _apply_jobs(connection: AsyncConnection, declared: Sequence[DeclaredJob]) -> Mapping[str, JobDefinition]:
    """Mirror the jobs; return the definitions of those that were known before."""
    rows = {j.dag_id: j.columns for j in declared}
    new = insert(job).values(created_at=database_now(), updated_at=database_now())
    changed = update(job).values(updated_at=database_now())
    before = await _mirror(connection, job.c.dag_id, rows, new=new, changed=changed, gone=changed)
    taken_out = and_(job.c.cron.is_(None), job.c.clock.is_not(None))  # if it comes back, its clock begins anew
    await connection.execute(update(job).where(taken_out).values(clock=None, next_tick=None))
    begin_paused = [j.dag_id for j in declared if j.paused and j.dag_id not in before]  # after that people decide
    await connection.execute(update(job).where(job.c.dag_id.in_(begin_paused)).values(paused=True))
    return {dag_id: row["definition"] for dag_id, row in before.items()}


async def _mirror(
    connection: AsyncConnection,
    key: Column[str],
    configured: Mapping[str, Mapping[str, Any]],
    *,
    new: Insert,
    changed: Update,
    gone: Update,
) -> Mapping[str, RowMapping]:
    """Insert what is missing, update what differs, deactivate what is no longer configured; return what was there."""
    rows = await connection.execute(select(key.table).order_by(key))
    present = {row[key]: row for row in rows.mappings()}
    missing = [{key.name: name, **values} for name, values in configured.items() if name not in present]
    if missing:
        await connection.execute(new, missing)
    kept = {name: {**values, "active": True} for name, values in configured.items() if name in present}
    differing = {name: kept[name] for name, row in present.items() if name in kept and _differs(row, kept[name])}
    await _update_each(connection, key, differing, changed)
    left = [name for name, row in present.items() if name not in configured and row["active"]]
    await connection.execute(gone.where(key.in_(left)).values(active=False))
    return present


async def _update_each(
    connection: AsyncConnection, key: Column[Any], rows: Mapping[Any, Mapping[str, Any]], change: Update
) -> None:
    """Update rows that all have the same columns, each by its key."""
    if rows:
        columns = next(iter(rows.values()))
        one = change.where(key == bindparam("which")).values({name: bindparam(f"to_{name}") for name in columns})
        each = [{"which": which, **{f"to_{name}": to for name, to in row.items()}} for which, row in rows.items()]
        await connection.execute(one, each)


def _differs(row: RowMapping, values: Mapping[str, Any]) -> bool:
    return any(row[name] != value for name, value in values.items())
