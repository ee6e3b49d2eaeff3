"""Asset events: those that this run consumes, those of the past, and those that it gives its outlets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, overload

from .client import Transport
from .errors import AssetJobError


@dataclass(frozen=True, kw_only=True)
class Asset:
    """An asset to name in an alias' event; it is created when it does not exist."""

    uri: str
    name: str = ""
    """'' = the uri."""


@dataclass(frozen=True, kw_only=True)
class Alias:
    """An alias, where an asset's name would stand."""

    name: str


@dataclass(frozen=True)
class Metadata:
    """What one outlet event will say, for `r.outlet_events.add`; with an `alias` the asset is one known only now."""

    asset: str | Asset
    extra: Mapping[str, Any] | None = None
    alias: str | None = None


@dataclass(frozen=True, kw_only=True)
class AssetEvent:
    """One update of an asset; of a watcher's event `extra` holds the files or the id ranges."""

    id: int
    asset: str
    uri: str
    timestamp: datetime
    extra: Mapping[str, Any]
    source_watcher: str | None = None
    source_dag_id: str | None = None
    source_run_id: str | None = None
    source_task_id: str | None = None
    source_map_index: int | None = None
    trace_id: str | None = None
    """Follows it through the logs of the daemon, to what comes of it."""
    source_dag_run: Mapping[str, Any] | None = None
    """Of a job's event: `dag_id`, `run_id`, `data_interval_start`, `data_interval_end` of the run that made it."""
    source_task_instance: Mapping[str, Any] | None = None
    """Likewise: `dag_id`, `run_id`, `task_id`, `map_index`."""


def asset_key(asset: str | Asset, known: Mapping[str, str]) -> str:
    """The name of a known asset (name -> uri) that is named by itself, by its uri or as an `Asset`; else that text."""
    text = asset if isinstance(asset, str) else asset.name or asset.uri
    if text in known:
        return text
    uri = text if isinstance(asset, str) else asset.uri
    return next((name for name, of_known in known.items() if of_known == uri), text)


class TriggeringAssetEvents(dict[str, list[AssetEvent]]):
    """The events this run consumes: asset name -> its events, oldest first; `[uri]` and `[Asset(…)]` give the same."""

    def __init__(self, events: Mapping[str, list[dict[str, Any]]]) -> None:
        super().__init__({asset: sorted(map(asset_event, sent), key=_age) for asset, sent in events.items()})

    def __getitem__(self, asset: str | Asset) -> list[AssetEvent]:
        return super().__getitem__(self._name(asset))

    def files(self, asset: str | Asset | None = None) -> list[dict[str, Any]]:
        """Of all events, or of one asset's, oldest event first; so too the other two."""
        return self._collect("files", asset)

    def ranges(self, asset: str | Asset | None = None) -> list[tuple[int, int]]:
        """Ranges of ids, both ends inclusive, that hold exactly the new rows."""
        return [(first, last) for first, last in self._collect("ranges", asset)]

    def rows(self, asset: str | Asset | None = None) -> list[dict[str, Any]]:
        """The new rows themselves; only of watchers with `columns`."""
        return self._collect("rows", asset)

    def _name(self, asset: str | Asset) -> str:
        return asset_key(asset, {name: events[0].uri for name, events in self.items() if events})

    def _collect(self, what: str, asset: str | Asset | None) -> list[Any]:
        lists = self.values() if asset is None else [self.get(self._name(asset), [])]
        events = sorted((event for events in lists for event in events), key=_age)
        return [item for event in events for item in event.extra.get(what, ())]


class PastEvents(Sequence[AssetEvent]):
    """All events so far of an asset, or of those that came through an alias, oldest first; asked for when looked at.

    `[-1]` and other places from either end fetch no more than they need.
    """

    def __init__(self, client: Transport, path: str, query: Mapping[str, str]) -> None:
        self._client, self._path, self._query = client, path, query

    @overload
    def __getitem__(self, place: int) -> AssetEvent: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[AssetEvent]: ...

    def __getitem__(self, place: int | slice) -> AssetEvent | Sequence[AssetEvent]:
        if isinstance(place, slice):
            return self._all[place]
        count = place + 1 if place >= 0 else -place
        events = self._fetch(ascending=place >= 0, limit=count)
        if len(events) < count:
            raise IndexError(f"there are only {len(events)} events")
        return events[-1]

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[AssetEvent]:
        return iter(self._all)

    @cached_property
    def _all(self) -> list[AssetEvent]:
        return self._fetch()

    def _fetch(self, *, ascending: bool = True, limit: int | None = None) -> list[AssetEvent]:
        query = {**self._query, "ascending": json.dumps(ascending), **({} if limit is None else {"limit": str(limit)})}
        return [asset_event(sent) for sent in self._client.call("GET", self._path, query=query)["asset_events"]]


class InletEvents:
    """`inlet_events[asset]` by name or uri, `inlet_events[Alias(name=…)]`: their past events."""

    def __init__(self, client: Transport, inlets: list[dict[str, str]], known: Mapping[str, str]) -> None:
        self._client, self._known = client, known
        self._aliases = {inlet["alias"] for inlet in inlets if "alias" in inlet}

    def __getitem__(self, asset: str | Asset | Alias) -> PastEvents:
        """A bare string that is no inlet's or outlet's name is an alias of the inlets, or else a uri."""
        if isinstance(asset, Asset):
            asset = asset_key(asset, self._known)
        if isinstance(asset, Alias) or (asset not in self._known and asset in self._aliases):
            name = asset.name if isinstance(asset, Alias) else asset
            return PastEvents(self._client, "asset-events/by-asset-alias", {"name": name})
        named = {"name": asset, "uri": ""} if asset in self._known else {"name": "", "uri": asset}
        return PastEvents(self._client, "asset-events/by-asset", named)


def asset_event(sent: Mapping[str, Any]) -> AssetEvent:
    """As the daemon, or a folder in its place, sends it."""
    same = {name: sent.get(name) for name in AssetEvent.__dataclass_fields__}
    asset, timestamp = sent["asset"], datetime.fromisoformat(sent["timestamp"])
    shaped = {"asset": asset["name"], "uri": asset["uri"], "timestamp": timestamp, "extra": sent.get("extra") or {}}
    return AssetEvent(**{**same, **shaped})


def _age(event: AssetEvent) -> tuple[datetime, int]:
    return event.timestamp, event.id


@dataclass(kw_only=True)
class OutletEvent:
    """What the events of one outlet will say; they are sent when the job succeeds, never before."""

    name: str
    is_alias: bool
    known: Mapping[str, str]
    extra: dict[str, Any] = field(default_factory=dict)
    """Of the asset's event; of an alias, see `add`."""
    _added: list[dict[str, Any]] = field(default_factory=list)

    def add(self, asset: str | Asset, extra: Mapping[str, Any] | None = None) -> None:
        """Through an alias: one event of this asset; a bare string is an inlet's or outlet's name, or a uri."""
        if not self.is_alias:
            raise AssetJobError(f"{self.name} is an asset, no alias: set r.outlet_events[{self.name!r}].extra instead")
        if isinstance(asset, str):
            asset = Asset(uri=self.known[asset], name=asset) if asset in self.known else Asset(uri=asset)
        named = {"name": asset.name, "uri": asset.uri}
        self._added.append({"alias": self.name, "asset": named, "extra": dict(extra or {})})

    def to_send(self) -> list[dict[str, Any]]:
        return self._added if self.is_alias else [{"asset": self.name, "extra": self.extra}]


class OutletEvents:
    """`outlet_events[asset].extra = {…}` and `outlet_events[alias].add(asset, extra)`, for the job's outlets.

    An asset by name, by uri, or as an `Asset`; an alias by name, or as an `Alias`.
    """

    def __init__(self, outlets: list[dict[str, str]], known: Mapping[str, str], *, any_asset: bool = False) -> None:
        """`any_asset`: nobody has declared outlets, so whatever is named is one."""
        self._known, self._any_asset = known, any_asset
        self._outlets = {outlet.get("name") or outlet["alias"]: "alias" in outlet for outlet in outlets}
        self._touched: dict[str, OutletEvent] = {}

    def __getitem__(self, outlet: str | Asset | Alias) -> OutletEvent:
        name = outlet.name if isinstance(outlet, Alias) else asset_key(outlet, self._known)
        if name not in self._outlets and not self._any_asset:
            raise AssetJobError(f"{name} is no outlet of this job: add it to the job's `outlets` in the configuration")
        fresh = OutletEvent(name=name, is_alias=self._outlets.get(name, False), known=self._known)
        return self._touched.setdefault(name, fresh)

    def add(self, metadata: Metadata) -> None:
        """One event more through its alias, or more to say in the one event of an outlet."""
        if metadata.alias is not None:
            self[metadata.alias].add(metadata.asset, metadata.extra)
        else:
            self[metadata.asset].extra.update(metadata.extra or {})

    def to_send(self) -> list[dict[str, Any]]:
        return [item for event in self._touched.values() for item in event.to_send()]
