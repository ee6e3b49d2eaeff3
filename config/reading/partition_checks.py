"""Parts of partition keys: the watchers of an asset agree on them, and jobs name those that there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from config.errors import KeyPath
from config.models.assets import AssetConfig, WatcherConfig, parts_by_asset, watchers_by_asset
from config.models.jobs import JobConfig
from config.models.schedules import AssetCondition, Condition, needed_together, references
from config.names import did_you_mean


def disagreeing_parts(assets: Mapping[str, AssetConfig | None]) -> Iterator[tuple[KeyPath, str]]:
    """Yield the place of each watcher that names other parts than its asset, and a sentence."""
    parts = parts_by_asset(assets)
    for name, watchers in watchers_by_asset(assets).items():
        for watcher in watchers:
            if watcher.facts.parts not in {None, parts[name]}:
                others = ", ".join(parts[name] or ())
                which = "the asset" if watcher.asset == name else f"the asset {name}"
                sentence = (
                    f"names other parts than {which}, which has {others}: name the same ones in the same order, "
                    "because keys of one asset are divided in one way"
                )
                yield ("assets", watcher.asset, "watchers", watcher.name, "partition"), sentence


def partition_faults(job: JobConfig, assets: Mapping[str, AssetConfig | None]) -> Iterator[tuple[KeyPath, str]]:
    """Yield a place in the job and a sentence for each part that no asset has, and for assets that cannot be joined."""
    condition = None if job.schedule is None else job.schedule.condition
    if job.batch.mode != "per_partition":
        return
    if condition is None:
        if job.batch.complete is not None:
            yield ("batch", "complete"), "needs a schedule of assets, whose events complete a partition"
        return
    yield from _unmarked(job, condition, assets)
    yield from _unknown(job, condition, assets) or (*_within_one_value(job), *_unjoinable(job, condition, assets))


def waiting_for_ever(jobs: Mapping[str, JobConfig]) -> Iterator[tuple[KeyPath, str]]:
    """Yield the place of each job in which a part of a redelivered partition may wait without anybody hearing of it, and a warning."""
    for name, job in jobs.items():
        complete = job.batch.complete
        if complete is not None and complete.again and job.clock_deadline.after is None:
            sentence = (
                f"the job {name} takes partitions that are delivered again, and has no `deadline`: a file that comes alone waits for "
                "ever; add `deadline: {after: 2h, then: run}`, or `deadline: 2h` for an alert"
            )
            yield ("jobs", name, "batch", "complete"), sentence


def _unknown(
    job: JobConfig, condition: Condition, assets: Mapping[str, AssetConfig | None]
) -> list[tuple[KeyPath, str]]:
    """Return a fault for each part that the job names and no asset of its schedule has."""
    parts = parts_by_asset(assets)
    known = {part for name in _scheduled(condition, assets) for part in parts[name] or ()}
    hint = "name parts in `partition` of the asset or its watchers"
    named = [("by", part) for part in job.batch.by or ()]
    named += [("complete", job.batch.complete.part)] if job.batch.complete and job.batch.complete.part else []
    return [
        (("batch", place), f"unknown part `{part}`; {did_you_mean(part, known) if known else hint}")
        for place, part in named
        if part not in known and all(assets.values())
    ]


def _unmarked(
    job: JobConfig, condition: Condition, assets: Mapping[str, AssetConfig | None]
) -> Iterator[tuple[KeyPath, str]]:
    """Yield a fault where the job waits for a file that might be reported before the files for which it vouches."""
    glob = None if job.batch.complete is None else job.batch.complete.glob
    of_assets = watchers_by_asset(assets)
    watchers = [watcher for name in _scheduled(condition, assets) for watcher in of_assets[name]]
    if glob is None or any(_reports_last(watcher, glob) for watcher in watchers):
        return
    kind = "marker" if job.batch.complete is not None and job.batch.complete.marker else "manifest"
    hint = f'give a watcher of files `last: ["{glob}"]`, so that it reports {kind}s after all else'
    yield (
        ("batch", "complete"),
        f"waits for a {kind}, and no `last` of the scheduled assets' watchers has it; {hint}",
    )


def _reports_last(watcher: WatcherConfig, glob: str) -> bool:
    """Whether a watcher reports after all else what a job's glob matches, by the end of the names."""
    name = glob.rpartition("/")[2]
    # The options of a trigger in a process of its own show what they are only when they are dumped.
    last = watcher.options.model_dump(mode="json").get("last") or ()
    return any(fnmatchcase(name, each.rpartition("/")[2]) for each in last)


def with_manifests(assets: Mapping[str, AssetConfig], jobs: Mapping[str, JobConfig]) -> dict[str, AssetConfig]:
    """Return the assets, with the globs of the manifests that each of their watchers has to read."""
    of_assets, globs = watchers_by_asset(assets), dict[str, set[str]]()
    for job in jobs.values():
        glob = None if job.batch.complete is None else job.batch.complete.manifest
        if glob is not None and job.schedule is not None and job.schedule.condition is not None:
            for watcher in (each for name in _scheduled(job.schedule.condition, assets) for each in of_assets[name]):
                if _reports_last(watcher, glob):
                    globs.setdefault(watcher.name, set()).add(glob)
    return {name: _reading(asset, globs) for name, asset in assets.items()}


def _reading(asset: AssetConfig, globs: Mapping[str, set[str]]) -> AssetConfig:
    """Return an asset whose watchers read manifests. `globs` are those of each watcher, by its name."""
    if globs.keys().isdisjoint(asset.watchers):
        return asset
    watchers = {
        name: watcher.model_copy(update={"manifests": tuple(sorted(globs.get(name, ())))})
        for name, watcher in asset.watchers.items()
    }
    return asset.model_copy(update={"watchers": watchers})


def _within_one_value(job: JobConfig) -> Iterator[tuple[KeyPath, str]]:
    part = "" if job.batch.complete is None else job.batch.complete.part
    if part and (job.batch.by is None or part in job.batch.by):
        hint = "group `by` the other parts: the events of a group differ in it"
        yield ("batch", "complete"), f"waits for values of `{part}` within one value of it; {hint}"


def _scheduled(condition: Condition, assets: Mapping[str, AssetConfig | None]) -> Iterator[str]:
    """Yield the assets that the schedule may wait for; an alias may stand for any."""
    named = list(references(condition))
    if all(isinstance(reference, AssetCondition) for reference in named):
        yield from (reference.name for reference in named if reference.name in assets)
    else:
        yield from assets


def _unjoinable(
    job: JobConfig, condition: Condition, assets: Mapping[str, AssetConfig | None]
) -> Iterator[tuple[KeyPath, str]]:
    names = dict.fromkeys(each.name for each in needed_together(condition) if isinstance(each, AssetCondition))
    of_assets = parts_by_asset(assets)
    parts = {name: of_assets[name] for name in names if assets.get(name) is not None}
    if job.batch.by is None:
        if len({*parts.values()}) > 1:
            described = ", ".join(f"{name}: {' and '.join(own or ('none',))}" for name, own in parts.items())
            yield (
                ("batch", "mode"),
                (
                    f"the assets that `all` joins have different parts of partition keys ({described}): group `by` parts that "
                    "all of them have, or give them the same `partition`"
                ),
            )
        return
    for name, own in parts.items():
        if missing := [part for part in job.batch.by if part not in (own or ())]:
            yield (
                ("batch", "by"),
                (
                    f"the asset `{name}` has no part `{missing[0]}`, so its events never join others by it: give it a "
                    "`partition`, read it as an inlet, or use `any`"
                ),
            )
