"""What an upgrade changes without a word in the configuration: one list, for `watcher check` and for docs/versions.md (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from config.errors import Problem
from config.models.schedules import AssetCondition, references

if TYPE_CHECKING:
    from config.models import Configuration
    from config.models.assets import WatcherConfig
    from config.models.jobs import JobConfig

_Concerned = Callable[["JobConfig", "list[WatcherConfig]"], bool]


@dataclass(frozen=True, kw_only=True)
class ChangedDefault:
    """A rule that a job which an earlier version ran meets after an upgrade. The texts continue the page's table."""

    rule: str
    before: str
    """What a position or job of 0.2 and 0.3 does, under its own version."""
    now: str
    """What a new one does, and after the upgrade an old one, too."""
    switch: str
    """How to have it as before, or what tells a job."""
    concerns: _Concerned
    """Whether it concerns a job, by the watchers whose assets its schedule waits for."""


def _of_versions(job: JobConfig, watchers: list[WatcherConfig]) -> bool:
    return job.batch.mode != "each" and any(each.facts.names_versions for each in watchers)


def _of_cleaned_files(_: JobConfig, watchers: list[WatcherConfig]) -> bool:
    return any(each.facts.cleaned_after is not None for each in watchers)


def _of_complete_partitions(job: JobConfig, _: list[WatcherConfig]) -> bool:
    return job.batch.complete is not None


CHANGED_DEFAULTS: Final = (
    ChangedDefault(
        rule="several versions of one path in a run",
        before="the job gets each, and fails for those that are gone",
        now="it gets the newest; older ones are `superseded`",
        switch="`batch: {mode: each}`, or names that are written once",
        concerns=_of_versions,
    ),
    ChangedDefault(
        rule="files that `clean_source` has deleted or moved since",
        before="a run that runs again gets them, and fails",
        now="it goes without the deleted ones, or is refused (409) if it has succeeded; it reads the moved ones at their new place",
        switch="`--include-cleaned`; the job needs the right to read `move_to`",
        concerns=_of_cleaned_files,
    ),
    ChangedDefault(
        rule="a run of a partition's left-over events (`--run`, `max_wait`)",
        before="what comes later waits for a whole set; `r.partition_complete` is null",
        now="what comes later is late; `r.partition_complete` is false",
        switch="no key: `r.late` and `r.partition_complete` tell the job",
        concerns=_of_complete_partitions,
    ),
)


def changed_defaults(configuration: Configuration) -> Iterator[Problem]:
    """Yield a line for each rule that concerns jobs of a configuration, at the first of these."""
    for default in CHANGED_DEFAULTS:
        jobs = [
            name for name, job in configuration.jobs.items() if default.concerns(job, _watchers_of(configuration, job))
        ]
        if jobs:
            sentence = (
                f"changed since 0.3.0, for {', '.join(jobs)}: {default.rule}: before, {default.before}; now {default.now};"
                f" to switch: {default.switch}"
            )
            yield Problem(file=str(configuration.file), line=None, path=f"jobs.{jobs[0]}", message=sentence)


def _watchers_of(configuration: Configuration, job: JobConfig) -> list[WatcherConfig]:
    """Return the watchers that report events of the assets which a job's schedule names."""
    condition = None if job.schedule is None else job.schedule.condition
    awaited = {each.name for each in references(condition) if isinstance(each, AssetCondition)}
    return [each for each in configuration.watchers.values() if awaited & {each.asset, *each.facts.further_assets}]


def table() -> str:
    """Return the list as the Markdown table of docs/versions.md."""
    head = ("rule", "a position or job of 0.2 or 0.3", "a new one, and an old one after the upgrade", "how to switch")
    rows = [(each.rule, each.before, each.now, each.switch) for each in CHANGED_DEFAULTS]
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])
