"""The sections `assets` and `aliases`: what there is, and what watches it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import chain
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SerializeAsAny, WithJsonSchema

from config.errors import KeyPath
from config.facts import WatcherFacts
from config.models.deadlines import ExpectBy
from config.models.uris import credentials_in, normalise
from config.models.values import PositiveDuration
from config.names import Isolation, Name
from config.section import LARGEST_INT, Section
from config.sentences import misplaced


def _check_countable(duration: timedelta) -> timedelta:
    """Return `duration`. Raises ValueError if the database has no room for its number of seconds."""
    if duration > (longest := timedelta(days=timedelta(seconds=LARGEST_INT).days)):
        raise ValueError(f"must be at most {longest.days}d")
    return duration


def _check_extra(extra: dict[str, Any]) -> dict[str, Any]:
    hint = "looks like a credential, and `extra` is stored and shown in clear: keep it in a connection"
    faults: list[tuple[KeyPath, str]] = [(path, hint) for path in credentials_in(extra)]
    if faults:
        raise misplaced(extra, *faults)
    try:
        json.dumps(extra, allow_nan=False)
    except ValueError:
        raise ValueError("holds a number that JSON cannot write (.nan or .inf); remove it") from None
    return extra


def check_parts(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of parts. Raises ValueError if there are none, or one twice."""
    if not parts or len(parts) != len({*parts}):
        raise ValueError("must name at least one part, and none twice")
    return parts


PartName: TypeAlias = Annotated[str, Field(min_length=1, max_length=250)]
Group: TypeAlias = Annotated[str, Field(min_length=1, max_length=1500)]


class WatcherConfig(Section):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: str
    asset: str
    trigger: str
    """A registered name (`s3.new_files`), or the dotted path of a class on `plugins_dir`."""
    connection: str | None = None
    """Name of the connection that the trigger uses."""
    # Excluded from dumps, so no part of the hash: these two do not concern other processes.
    isolation: Isolation = Field(default="none", exclude=True)
    """Where the trigger runs: `process` is a process of its own, the default of dotted paths; `none` is the daemon's process."""
    pause_after_failures: int | None = Field(default=None, exclude=True)
    """Number of failed polls in a row after which the watcher is paused until a person resumes it; null never pauses it."""
    manifests: tuple[str, ...] = Field(default=(), exclude_if=lambda globs: not globs)
    """Globs of the files that jobs wait for as manifests, so that the trigger reads them. In the YAML they stand at these jobs."""
    options: SerializeAsAny[BaseModel]
    """The trigger's options, validated by its own model. In the YAML they stand beside `trigger`."""
    facts: WatcherFacts = Field(exclude=True, repr=False)
    """What the options say of the watcher to those who do not know its trigger."""


class AssetConfig(Section):
    uri: Annotated[str, AfterValidator(normalise)]
    """The asset's URI, normalised by Airflow's rules. Default: the asset's name."""
    group: Group = "asset"
    """A word by which people group assets."""
    extra: Annotated[dict[str, Any], AfterValidator(_check_extra)] = Field(default_factory=dict)
    """Anything worth knowing, as JSON. It is no part of the asset's identity, and must not hold credentials."""
    expect_every: Annotated[PositiveDuration, AfterValidator(_check_countable)] | None = None
    """Maximum time without an event; after that an alert is raised."""
    expect_by: ExpectBy | None = None
    """Time of the day by which an event must have come, such as `07:00`, or `{by, on, timezone, since}`; else an alert is raised."""
    partition: Annotated[tuple[PartName, ...], AfterValidator(check_parts)] | None = None
    """Names of the parts of its events' partition keys, in order. Default: those that the `partition` of its watchers names."""
    watchers: Annotated[dict[Name, WatcherConfig], WithJsonSchema({})] = Field(default_factory=dict)
    """Watchers by name, which is unique in the whole configuration: `trigger`, `connection` and the trigger's options."""


def watchers_by_asset(assets: Mapping[str, AssetConfig | None]) -> Mapping[str, Sequence[WatcherConfig]]:
    """Return each asset's watchers: its own, then those of other assets that have events of it."""
    watchers = {name: [] if asset is None else [*asset.watchers.values()] for name, asset in assets.items()}
    for watcher in chain.from_iterable([*watchers.values()]):
        for name in watcher.facts.further_assets:
            if name in watchers:
                watchers[name] = [*watchers[name], watcher]
    return watchers


def parts_by_asset(assets: Mapping[str, AssetConfig | None]) -> Mapping[str, tuple[str, ...] | None]:
    """Return the names of the parts of each asset's partition keys; None: it names none."""
    named = {
        name: next((parts for watcher in watchers if (parts := watcher.facts.parts)), None)
        for name, watchers in watchers_by_asset(assets).items()
    }
    return named | {name: asset.partition for name, asset in assets.items() if asset and asset.partition is not None}


class AliasConfig(Section):
    group: Group = "asset"
    """A word by which people group aliases."""
