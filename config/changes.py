"""What a new configuration changes against the one that runs: pure, and the same whoever asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Self

from pydantic import BaseModel, SecretStr

from config.models import Configuration
from config.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Names of one section: new ones, those whose content differs, and those that went."""

    added: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()

    @classmethod
    def between(cls, before: Mapping[str, Any], after: Mapping[str, Any]) -> Self:
        return cls(
            added=frozenset(after.keys() - before.keys()),
            changed=frozenset(name for name in after.keys() & before.keys() if after[name] != before[name]),
            removed=frozenset(before.keys() - after.keys()),
        )

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    @property
    def json(self) -> dict[str, list[str]]:
        return {kind: sorted(names) for kind, names in vars(self).items()}


@dataclass(frozen=True, kw_only=True)
class Changes:
    """By section. A watcher is changed when its connection is, a connection also by a secret that was rotated.

    `settings` are dotted names: none of them takes effect before the daemon is started again.
    """

    assets: Difference = field(default_factory=Difference)
    watchers: Difference = field(default_factory=Difference)
    connections: Difference = field(default_factory=Difference)
    aliases: Difference = field(default_factory=Difference)
    jobs: Difference = field(default_factory=Difference)
    settings: tuple[str, ...] = ()

    @property
    def json(self) -> dict[str, dict[str, list[str]]]:
        """The sections that a reload changes."""
        return {name: part.json for name, part in vars(self).items() if isinstance(part, Difference)}

    def __bool__(self) -> bool:
        return any(vars(self).values())


def changes(before: Configuration, after: Configuration) -> Changes:
    """What becomes different when `after` takes the place of `before`."""
    return Changes(
        assets=Difference.between(_assets(before), _assets(after)),
        watchers=Difference.between(_watchers(before), _watchers(after)),
        connections=Difference.between(before.connections, after.connections),
        aliases=Difference.between(before.aliases, after.aliases),
        jobs=Difference.between(_jobs(before), _jobs(after)),
        settings=tuple(_differing(_flat(before.settings), _flat(after.settings))),
    )


def _assets(configuration: Configuration) -> Mapping[str, Any]:
    """Without their watchers, which are compared by themselves."""
    return {name: asset.model_copy(update={"watchers": {}}) for name, asset in configuration.assets.items()}


def _watchers(configuration: Configuration) -> Mapping[str, Any]:
    connections = configuration.connections
    return {
        name: (watcher, None if watcher.connection is None else connections[watcher.connection])
        for name, watcher in configuration.watchers.items()
    }


def _jobs(configuration: Configuration) -> Mapping[str, Any]:
    """With what a job's private context holds of connections."""
    connections, options = configuration.connections, configuration.submitter_options
    return {
        name: (job, options.get(name), [connections[each] for each in job.spark.connections])
        for name, job in configuration.jobs.items()
    }


def settings_digests(settings: Settings) -> dict[str, str]:
    """A fingerprint of each setting by its dotted name, for whoever may know whether it changed, but not what it is."""
    return {name: sha256(repr(value).encode()).hexdigest() for name, value in _flat(settings).items()}


def changed_settings(running: Mapping[str, str], settings: Settings) -> list[str]:
    """The names of `settings` that differ from what `settings_digests` gave of others."""
    return list(_differing(running, settings_digests(settings)))


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    return (name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name))


def _flat(section: BaseModel, prefix: str = "settings") -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in section:
        path = f"{prefix}.{type(section).model_fields[name].alias or name}"
        if isinstance(value, BaseModel):
            values |= _flat(value, path)
        else:
            values[path] = _revealed(value)
    return values


def _revealed(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_revealed(member) for member in value]
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def restart_sentence(names: tuple[str, ...] | list[str]) -> str:
    """Why a reload that changes these settings is refused."""
    what, verb = ", ".join(names), "takes" if len(names) == 1 else "take"
    return f"{what} {verb} effect at a start only: start the daemon again, or put back what was there before"
