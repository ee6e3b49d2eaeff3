"""The contract of a feature: what it may bring to the daemon, on one page.

A feature names what it brings by dotted paths, so that reading the list imports nothing else. The composition root resolves a
path when it is needed. The type of what stands behind each path is the one in brackets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

CONTRACT: Final = 1
"""The number of this contract. A feature with another number is not loaded, and `watcher check` says so."""
Path: TypeAlias = str
"""A dotted path to an attribute of a module: `package.module.attribute`."""


@dataclass(frozen=True, kw_only=True)
class FeatureService:
    """Something that runs in a process for as long as it lives: started after the kernel's own services, stopped before them."""

    name: str
    run: Path
    """[`watcher.host.containment.Service`] built from the process's rooms."""
    scope: Literal["process", "triggerer", "scheduler"] = "process"
    """Which processes run it: all, or those with this role. Only the leader's service writes through its transactions."""


@dataclass(frozen=True, kw_only=True)
class Feature:
    """Something of the product that can be left out. Each member but `name` and `needs` is a hook of the kernel."""

    name: str
    contract: int = CONTRACT
    needs: frozenset[str] = frozenset()
    """The names of the features that its modules import."""

    triggers: Mapping[str, Path] = field(default_factory=dict)
    """[`BaseEventTrigger`] by the word of the YAML; likewise the classes of connections and of submitters."""
    connections: Mapping[str, Path] = field(default_factory=dict)
    submitters: Mapping[str, Path] = field(default_factory=dict)
    settings: Mapping[str, Path] = field(default_factory=dict)
    """[pydantic model] by section of `settings`."""

    tables: Path | None = None
    """[`Sequence[Table]`] Its tables, each with its life cycle."""
    keeps_events: Path | None = None
    """[`Select`] of the ids of events that the clean-up must leave."""
    applies: Path | None = None
    """[`store.catalog.catalog_sync.Applies`] What it writes in the transaction that applies a configuration."""
    after_events: Path | None = None
    """[`store.detection.interest.AfterEvents`] What it writes in the transaction of events that it is interested in."""

    step: Path | None = None
    """[`watcher.scheduling.planning.Step`] What comes before a job's queue is looked at."""
    planners: Mapping[str, Path] = field(default_factory=dict)
    """[`watcher.scheduling.planning.Planner`] by the word of `batch.mode`."""

    services: tuple[FeatureService, ...] = ()
    routes: Path | None = None
    """[`Sequence[APIRouter]`] Routes of the REST API, each with its role."""
    pages: Path | None = None
    """[`Sequence[APIRouter]`] Web pages."""
    commands: Mapping[str, Path] = field(default_factory=dict)
    """[`typer.Typer`] by the first word of the command."""
    metrics: Path | None = None
    problems: Path | None = None
    checks: Path | None = None
    """What it adds to the metrics, to the list of what is wrong, and to `watcher check --connect`."""
