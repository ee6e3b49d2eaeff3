"""A whole configuration, and how processes compare theirs."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, Field, SerializeAsAny

from config.errors import Problem
from config.models.assets import AliasConfig, AssetConfig, WatcherConfig
from config.models.jobs import JobConfig
from config.models.schedules import AliasCondition, references
from config.models.settings import Settings
from config.names import Name
from config.section import Section

_SHARED: Final = {"connections", "assets", "aliases", "jobs", "submitter_options"}
"""The sections that processes with one database must agree on, as on some settings."""


class Configuration(Section):
    """Everything the YAML says, checked as a whole. The dictionaries are keyed by name; a job's name is its dag_id."""

    settings: SerializeAsAny[Settings] = Settings()
    connections: dict[Name, SerializeAsAny[BaseModel]] = Field(default_factory=dict)
    given_connections: dict[str, Any] = Field(default_factory=dict, repr=False, exclude=True)
    """The connections as they were written, with `${…}` replaced, for processes that open a connection of their own."""
    assets: dict[Name, AssetConfig] = Field(default_factory=dict)
    aliases: dict[Name, AliasConfig] = Field(default_factory=dict)
    jobs: dict[Name, JobConfig] = Field(default_factory=dict)
    submitter_options: dict[Name, SerializeAsAny[BaseModel]] = Field(default_factory=dict)
    """The submitter's own options, by job, where it has any. In the YAML they stand in the job's `spark` section."""
    file: Path
    """The file or folder that was read, as the user named it."""
    folder: Path
    """The folder where relative paths started. It is absolute."""
    environment: frozenset[str] = frozenset()
    """Names of the environment variables that `${…}` names."""
    secrets: frozenset[Path] = frozenset()
    """The files that `${file:…}` names."""
    read_as: dict[Path, tuple[int, int, int, int] | None] = Field(default_factory=dict)
    """All files that were read, with the stamps (`config.reading.sources.stamps`) they had just before."""
    warnings: tuple[Problem, ...] = ()
    """What is allowed, but may be a mistake."""

    @property
    def watchers(self) -> dict[str, WatcherConfig]:
        """All assets' watchers by name."""
        return {name: watcher for asset in self.assets.values() for name, watcher in asset.watchers.items()}

    @cached_property
    def hash(self) -> str:
        """SHA-256 of what processes with one database must agree on. It does not depend on the order of keys.

        It covers no secrets and nothing that belongs to one process or machine (home, addresses, logs, capacities), so it
        does not show whether a reload changed anything: compare the configurations for that.
        """
        settings = self.settings.model_dump(mode="json", include={"store", "workers"}, fallback=str)
        shared = {key: set(members) for part in self.settings.parts for key, members in part.shared.items()}
        of_features = self.settings.model_dump(mode="json", include=shared)
        settings |= {key: members for key, members in of_features.items() if members is not None}
        return _digest([settings, self._shared()])

    @cached_property
    def definitions(self) -> dict[str, str]:
        """A short hash of each watcher's definition, by name. It covers the watcher's connection, but no secrets.

        Processes that have the same hash for a watcher watch the same source in the same way.
        """
        shared = self._shared()
        return {
            name: _digest([watcher, shared["connections"].get(watcher["connection"])])[:16]
            for asset in shared["assets"].values()
            for name, watcher in asset["watchers"].items()
        }

    def uris_awaited_by(self, job: JobConfig, resolved: Mapping[str, Collection[str]]) -> frozenset[str]:
        """Return the uris of the assets that a job's schedule waits for. `resolved` has those of each alias, as far as known."""
        if job.schedule is None:
            return frozenset()
        uris: set[str] = set()
        for reference in references(job.schedule.condition):
            is_alias = isinstance(reference, AliasCondition)
            uris.update(resolved.get(reference.name, ()) if is_alias else {self.assets[reference.name].uri})
        return frozenset(uris)

    def _shared(self) -> dict[str, Any]:
        return self.model_dump(mode="json", include=_SHARED, fallback=str)


def _digest(content: Any) -> str:
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
