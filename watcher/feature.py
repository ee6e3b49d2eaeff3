"""The contract of a feature: what it may bring to the daemon, on one page.

It names what it brings by dotted paths, so that reading the list imports nothing else. In brackets is the type of what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

CONTRACT: Final = 1
"""The number of this contract. A feature with another number is not loaded, and `watcher check` says so."""
Path: TypeAlias = str
"""A dotted path to an attribute of a module: `package.module.attribute`."""
OPEN: Final = frozenset({"settings", "upgrade", "start_check", "services", "routes", "commands", "checks"})
"""The hooks that a feature of another distribution may use. The others are the daemon's own for now, and are refused by name."""


@dataclass(frozen=True, kw_only=True)
class FeatureService:
    """Something that runs in a process for as long as it lives: started after the kernel's own services, stopped before them."""

    name: str
    build: Path
    """[`watcher.configuration.services.ServiceBuilder`] Makes it; called once, before anything runs."""
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
    """Something of the product that can be left out. Each member but `name` and `needs` is a hook of the kernel."""

    name: str
    contract: int = CONTRACT
    needs: frozenset[str] = frozenset()
    """The names of the features that its modules import."""

    triggers: Mapping[str, Path] = field(default_factory=dict)
    """[`BaseEventTrigger`] by the word of the YAML; likewise the classes of connections and of submitters."""
    spellings: Mapping[str, Spelled] = field(default_factory=dict)
    """Other ways to write its triggers, by the word that is written."""
    connections: Mapping[str, Path] = field(default_factory=dict)
    submitters: Mapping[str, Path] = field(default_factory=dict)
    refines: Mapping[str, Path] = field(default_factory=dict)
    """[subclass of another feature's submitter] What takes that one's place, by its word."""
    settings: Path | None = None
    """[`config.models.settings.SettingsPart`] Keys of the `settings` section."""

    tables: Path | None = None
    """[`Sequence[Table]`] Its tables, each with its life cycle."""
    upgrade: Path | None = None
    """[`store.database.feature_tables.UpgradeTables`] Brings its tables `x_<name>_…` to `tables_version`, under the upgrade's lock."""
    tables_version: int = 0
    keeps_events: Path | None = None
    """[`Select`] The ids of events that the clean-up must leave, found by an index if one of them is asked for."""
    applies: Path | None = None
    """[`store.catalog.catalog_sync.Applies`] What it writes in the transaction that applies a configuration."""
    declares: Path | None = None
    """[`watcher.configuration.declarations.Declares`] The same, made of the configuration that is applied."""
    chores: Path | None = None
    """[`Sequence[store.processes.cleanup.Chore]`] What the clean-up does for it, some of it at a time."""
    after_events: Path | None = None
    """[`store.detection.interest.AfterEvents`] What it writes in the transaction of events that it is interested in."""

    isolation: Path | None = None
    """[`watcher.configuration.foreign_classes.OpenProcesses`] Makes processes for classes of third parties. One feature may."""
    count_cleaned: Path | None = None
    """[`watcher.triggerer.control.CountCleaned`] Counts items that it took out of a source, and that a rewind does not bring back."""
    step: Path | None = None
    """[`watcher.scheduling.planning.base.JobStep`] What comes before a job's queue is looked at."""
    planners: Mapping[str, Path] = field(default_factory=dict)
    """[`watcher.scheduling.planning.base.Planner`] by the word of `batch.mode`."""

    start_check: Path | None = None
    """[`watcher.configuration.services.StartCheck`] What must hold before the process does anything."""
    services: tuple[FeatureService, ...] = ()
    routes: Path | None = None
    """[`Sequence[APIRouter]`] Routes of the REST API, each with its role."""
    pages: Path | None = None
    """[`Callable[[FastAPI], None]`] Adds web pages to the application."""
    commands: Mapping[str, Path] = field(default_factory=dict)
    """[`typer.Typer`] by the first word of the command."""
    more_commands: Mapping[str, Path] = field(default_factory=dict)
    """[`typer.Typer`] Commands for a group of a feature that it needs, by that group's word."""
    checks: Path | None = None
    """[`watcher.configuration.findings.Checks`] What it adds to `watcher check --connect`."""
    metrics: Path | None = None
    """[`watcher.host.metrics_snapshot.MetricsOf`] What it reads when Prometheus asks."""
    problems: Path | None = None
    """[`watcher.scheduling.problems.sources.ProblemsOf`] What it adds to the list of what is wrong."""
