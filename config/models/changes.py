"""The differences between two configurations: the one that runs, and a new one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Self

from pydantic import BaseModel, SecretStr

from config.models.configuration import Configuration
from config.models.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The names of one section that were added, whose content changed, and that were removed."""

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
class ConfigurationChanges:
    """The differences by section.

    A watcher also counts as changed when its connection has changed, and a connection when a secret in it was rotated.
    `settings` are dotted names. A changed setting takes effect only when the daemon is started again.
    """

    assets: Difference = field(default_factory=Difference)
    watchers: Difference = field(default_factory=Difference)
    connections: Difference = field(default_factory=Difference)
    aliases: Difference = field(default_factory=Difference)
    jobs: Difference = field(default_factory=Difference)
    settings: tuple[str, ...] = ()

    @property
    def json(self) -> dict[str, dict[str, list[str]]]:
        """The names in each section that a reload can change."""
        return {name: part.json for name, part in vars(self).items() if isinstance(part, Difference)}

    def __bool__(self) -> bool:
        return any(vars(self).values())


def changes(before: Configuration, after: Configuration) -> ConfigurationChanges:
    """The changes when `after` replaces `before`."""
    return ConfigurationChanges(
        assets=Difference.between(_assets(before), _assets(after)),
        watchers=Difference.between(_watchers(before), _watchers(after)),
        connections=Difference.between(before.connections, after.connections),
        aliases=Difference.between(before.aliases, after.aliases),
        jobs=Difference.between(_jobs(before), _jobs(after)),
        settings=tuple(_differing(_flat(before.settings), _flat(after.settings))),
    )


def _assets(configuration: Configuration) -> Mapping[str, Any]:
    """The assets without their watchers, which are compared separately."""
    return {name: asset.model_copy(update={"watchers": {}}) for name, asset in configuration.assets.items()}


def _watchers(configuration: Configuration) -> Mapping[str, Any]:
    connections = configuration.connections
    return {
        name: (watcher, None if watcher.connection is None else connections[watcher.connection])
        for name, watcher in configuration.watchers.items()
    }


def _jobs(configuration: Configuration) -> Mapping[str, Any]:
    """The jobs with the connections that their private context holds."""
    connections, options = configuration.connections, configuration.submitter_options
    return {
        name: (job, options.get(name), [connections[each] for each in job.spark.connections])
        for name, job in configuration.jobs.items()
    }


def settings_digests(settings: Settings) -> dict[str, str]:
    """A fingerprint of each setting by its dotted name. It shows whether the setting changed, but not its value."""
    return {name: sha256(repr(value).encode()).hexdigest() for name, value in _flat(settings).items()}


def changed_settings(running: Mapping[str, str], settings: Settings) -> list[str]:
    """The dotted names of `settings` whose fingerprints differ from those in `running` (see `settings_digests`)."""
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
    """A sentence that says why a reload that changes these settings is refused."""
    what, verb = ", ".join(names), "takes" if len(names) == 1 else "take"
    return f"{what} {verb} effect at a start only: start the daemon again, or put back what was there before"
