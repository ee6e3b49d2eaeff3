"""The contract of a feature: what it may bring to the daemon, on one page.

It names what it brings by dotted paths, so that reading the list imports nothing else. In brackets is the type of what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

CONTRACT: Final = 1
"""The number of this contract. A feature with another number is not loaded, and `watcher check` says so."""
OPEN: Final = frozenset({"settings", "upgrade", "start_check", "services", "routes", "commands", "checks"})
"""The hooks that a feature of another distribution may use. The others are the daemon's own for now, and are refused by name."""
Path: TypeAlias = str
"""A dotted path to an attribute of a module: `package.module.attribute`."""
Hook: TypeAlias = Path | None
Words: TypeAlias = Mapping[str, Path]


@dataclass(frozen=True, kw_only=True)
class FeatureService:
    """Something that runs in a process for as long as it lives: started after the kernel's own services, stopped before them."""

    name: str
    build: Path  # [watcher.configuration.services.ServiceBuilder] makes it; called once, before anything runs
    scope: Literal["process", "triggerer", "scheduler"] = "process"
    """Which processes run it: all, or those with this role. Only the leader's service writes through its transactions."""


@dataclass(frozen=True, kw_only=True)
class Spelled:
    """Another way to write a trigger: the one named here is meant where another's `key` has this value."""

    key: str
    value: str
    trigger: str


@dataclass(frozen=True, kw_only=True)
class Feature:
    """Something of the product that can be left out. The members after `needs` are the hooks of the kernel."""

    name: str
    contract: int = CONTRACT
    needs: frozenset[str] = frozenset()  # the names of the features that its modules import

    triggers: Words = field(default_factory=dict)  # [triggers.base.BaseEventTrigger] by the word of the YAML
    spellings: Mapping[str, Spelled] = field(default_factory=dict)  # other ways to write triggers, by the word written
    connections: Words = field(default_factory=dict)  # [triggers.base.BaseConnection] by the word of the YAML
    submitters: Words = field(default_factory=dict)  # [watcher.submit.base.Submitter] by the word of the YAML
    refines: Words = field(default_factory=dict)  # [a subclass] takes the place of another feature's submitter
    settings: Hook = None  # [config.models.settings.SettingsPart] keys of the `settings` section

    tables: Hook = None  # [Sequence[Table]] its tables in the migrations, each with its life cycle
    upgrade: Hook = None  # [store.database.feature_tables.UpgradeTables] brings its `x_<name>_…` to `tables_version`
    tables_version: int = 0
    keeps_events: Hook = None  # [Select] the ids of events that the clean-up must leave, found by an index
    applies: Hook = None  # [store.catalog.catalog_sync.Applies] what it writes where a configuration is applied
    declares: Hook = None  # [watcher.configuration.declarations.Declares] the same, made of that configuration
    chores: Hook = None  # [Sequence[store.processes.cleanup.Chore]] what the clean-up does for it, some at a time
    after_events: Hook = None  # [store.detection.interest.AfterEvents] what it writes where its events are stored

    isolation: Hook = None  # [watcher.configuration.foreign_classes.OpenProcesses] processes for classes of others
    changed_items: Hook = None  # [store.runs.tries.changed_items.ItemChanges] items of runs that are not as events say
    count_cleaned: Hook = None  # [watcher.triggerer.control.CountCleaned] items taken out of a source for good
    step: Hook = None  # [watcher.scheduling.planning.base.JobStep] what comes before a job's queue is looked at
    planners: Words = field(default_factory=dict)  # [watcher.scheduling.planning.base.Planner] by `batch.mode`

    start_check: Hook = None  # [watcher.configuration.services.StartCheck] what must hold before anything is done
    services: tuple[FeatureService, ...] = ()
    routes: Hook = None  # [Sequence[APIRouter]] routes of the REST API, each with its role
    pages: Hook = None  # [Callable[[FastAPI], None]] adds web pages to the application
    commands: Words = field(default_factory=dict)  # [typer.Typer] by the first word of the command
    help_groups: Mapping[str, Literal["start", "look", "act", "operate"]] = field(default_factory=dict)  # of commands
    more_commands: Words = field(default_factory=dict)  # [typer.Typer] for a group of a feature that it needs
    checks: Hook = None  # [watcher.configuration.findings.Checks] what it adds to `watcher check --connect`
    metrics: Hook = None  # [watcher.host.metrics_snapshot.MetricsOf] what it reads when Prometheus asks
    problems: Hook = None  # [watcher.scheduling.problems.sources.ProblemsOf] its part of what is wrong
