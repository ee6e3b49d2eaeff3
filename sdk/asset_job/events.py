"""Asset events: those that this run consumes, past ones, and those that it creates for its outlets."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Final, overload

from asset_job.client import Transport
from asset_job.errors import AssetJobError


@dataclass(frozen=True, kw_only=True)
class Asset:
    """An asset to name in an event through an alias. It is created if it does not exist."""

    uri: str
    name: str = ""
    """Empty: the uri."""


@dataclass(frozen=True, kw_only=True)
class Alias:
    """An alias, where an asset's name could stand."""

    name: str


@dataclass(frozen=True)
class Metadata:
    """The content of an outlet event, for `r.outlet_events.add`. With an `alias`, the asset may be one that is only known now."""

    asset: str | Asset
    extra: Mapping[str, Any] | None = None
    alias: str | None = None


@dataclass(frozen=True, kw_only=True)
class AssetEvent:
    """One update of an asset. In a watcher's event, `extra` holds the files or the id ranges."""

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
    partition_key: str | None = None
    """The part of the asset that it is about; None: it names none."""
    trace_id: str | None = None
    """The id that connects the event with its effects in the logs of the daemon."""
    source_dag_run: Mapping[str, Any] | None = None
    """The run that created a job's event: `dag_id`, `run_id`, `data_interval_start`, `data_interval_end`."""
    source_task_instance: Mapping[str, Any] | None = None
    """The task instance that created a job's event: `dag_id`, `run_id`, `task_id`, `map_index`."""

    @property
    def data_files(self) -> Sequence[dict[str, Any]]:
        """The files of a watcher's event, a mapping for each; none if they match the watcher's `last`: those vouch for others."""
        return () if self.extra.get("last") is True else self.extra.get("files", ())

    def without(self, names: Collection[str]) -> AssetEvent:
        """The same event without the files of these names."""
        if not any(name_in_event(file) in names for file in self.data_files):
            return self
        files = [file for file in self.data_files if name_in_event(file) not in names]
        return replace(self, extra={**self.extra, "files": files})


def name_in_event(file: Mapping[str, Any]) -> str:
    """What an event calls a file: its key or its path."""
    return str(file.get("key") or file.get("path"))


def asset_key(asset: str | Asset, known: Mapping[str, str]) -> str:
    """The name of an asset in `known` (name -> uri) that is given by name, by uri or as an `Asset`; for others that text."""
    text = asset if isinstance(asset, str) else asset.name or asset.uri
    if text in known:
        return text
    uri = text if isinstance(asset, str) else asset.uri
    return next((name for name, of_known in known.items() if of_known == uri), text)


class TriggeringAssetEvents(dict[str, list[AssetEvent]]):
    """The events that this run consumes: asset name -> its events, oldest first. `[uri]` and `[Asset(…)]` work as well."""

    cleaned: Sequence[Mapping[str, Any]]
    """The files of the events that `clean_source` deleted before this try started: they are left out of the events."""
    superseded: Sequence[Mapping[str, Any]]
    """The files of the events that are left out because a newer version of their path counts."""

    def __init__(
        self,
        events: Mapping[str, list[dict[str, Any]]],
        left_out: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    ) -> None:
        super().__init__({asset: sorted(map(asset_event, sent), key=_age) for asset, sent in events.items()})
        self.cleaned, self.superseded = ((left_out or {}).get(fate, ()) for fate in ("cleaned", "superseded"))

    def __getitem__(self, asset: str | Asset) -> list[AssetEvent]:
        return super().__getitem__(self._name(asset))

    def files(self, asset: str | Asset | None = None) -> list[dict[str, Any]]:
        """The new files of all events, or of one asset's events, oldest event first: a mapping for each file.

        Markers and manifests (files that match `last` of their watcher) are not among them.
        """
        return [file for event in self.in_order(asset) for file in event.data_files]

    def ranges(self, asset: str | Asset | None = None) -> list[tuple[int, int]]:
        """The ranges of ids, both ends inclusive, that hold exactly the new rows, oldest event first."""
        return [(first, last) for first, last in self._collect("ranges", asset)]

    def rows(self, asset: str | Asset | None = None) -> list[dict[str, Any]]:
        """The new rows themselves, oldest event first. Only events of watchers with `columns` have them."""
        return self._collect("rows", asset)

    def changes(self, asset: str | Asset | None = None) -> list[dict[str, Any]]:
        """The inserts, updates, deletes and truncates of events of `mode: log`, in the order of their commits.

        With partition keys, or a watcher of several assets, that is the order of each row's changes. A change that stands in several
        events, such as an update that moved its row to another key, comes once here.

        Raises `AssetJobError` for an event that has none, because its rows are not changes.
        """
        events = self.in_order(asset)
        for event in events:
            if "changes" not in event.extra:
                raise AssetJobError(
                    f"the event {event.id} of {event.asset} has no changes: watch the table in mode: log, or name the asset that "
                    "has them, as in changes('customers')"
                )
        changes = [(event, change) for event in events for change in event.extra["changes"]]
        last = {(_source(event), change["lsn"]): event.id for event, change in changes}
        return [
            change
            for event, change in changes
            if not is_shared(change) or last[_source(event), change["lsn"]] == event.id
        ]

    def without(self, names: Collection[str]) -> TriggeringAssetEvents:
        """The same events without the files of these names, which newer versions supersede."""
        left_out = [file for event in self.in_order() for file in event.data_files if name_in_event(file) in names]
        events = TriggeringAssetEvents({}, {"cleaned": self.cleaned, "superseded": [*self.superseded, *left_out]})
        events.update({asset: [event.without(names) for event in of_asset] for asset, of_asset in self.items()})
        return events

    @property
    def ids_by_lsn(self) -> Mapping[str, int]:
        """The LSN of each change -> the id of its event. Ids of one watcher's events grow in the order of the commits."""
        return {change["lsn"]: event.id for event in self.in_order() for change in event.extra.get("changes", ())}

    def _name(self, asset: str | Asset) -> str:
        return asset_key(asset, {name: events[0].uri for name, events in self.items() if events})

    def in_order(self, asset: str | Asset | None = None) -> list[AssetEvent]:
        """The events of all assets, or of one, oldest first."""
        lists = self.values() if asset is None else [self.get(self._name(asset), [])]
        return sorted((event for events in lists for event in events), key=_age)

    def _collect(self, what: str, asset: str | Asset | None) -> list[Any]:
        return [item for event in self.in_order(asset) for item in event.extra.get(what, ())]


def is_shared(change: Mapping[str, Any]) -> bool:
    """Whether a change may stand in several events: a row moved to another partition key or asset, or all rows were deleted."""
    return change["op"] == "truncate" or not _MOVES.isdisjoint(change)


_MOVES: Final = frozenset({"moved_from", "moved_to", "moved_from_asset", "moved_to_asset"})


def _source(event: AssetEvent) -> Any:
    """What distinguishes the LSNs of one server from those of another."""
    return event.extra.get("watcher", event.asset)


class PastEvents(Sequence[AssetEvent]):
    """All events so far of an asset, or through an alias, oldest first. They are fetched when they are used.

    An index such as `[-1]` fetches no more events than it needs, from either end.
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
    """The past events of inlets: `inlet_events[asset]` by name or uri, `inlet_events[Alias(name=…)]`."""

    def __init__(self, client: Transport, inlets: list[dict[str, str]], known: Mapping[str, str]) -> None:
        self._client, self._known = client, known
        self._aliases = {inlet["alias"] for inlet in inlets if "alias" in inlet}

    def __getitem__(self, asset: str | Asset | Alias) -> PastEvents:
        """The past events of an asset or alias.

        A string is the name of an inlet or outlet, or else an alias among the inlets, or else a uri.
        """
        if isinstance(asset, Asset):
            asset = asset_key(asset, self._known)
        if isinstance(asset, Alias) or (asset not in self._known and asset in self._aliases):
            name = asset.name if isinstance(asset, Alias) else asset
            return PastEvents(self._client, "asset-events/by-asset-alias", {"name": name})
        named = {"name": asset, "uri": ""} if asset in self._known else {"name": "", "uri": asset}
        return PastEvents(self._client, "asset-events/by-asset", named)


def asset_event(sent: Mapping[str, Any]) -> AssetEvent:
    """The event that the daemon, or a local folder, sends."""
    return AssetEvent(
        id=sent["id"],
        asset=sent["asset"]["name"],
        uri=sent["asset"]["uri"],
        timestamp=datetime.fromisoformat(sent["timestamp"]),
        extra=sent.get("extra") or {},
        source_watcher=sent.get("source_watcher"),
        source_dag_id=sent.get("source_dag_id"),
        source_run_id=sent.get("source_run_id"),
        source_task_id=sent.get("source_task_id"),
        source_map_index=sent.get("source_map_index"),
        partition_key=sent.get("partition_key"),
        trace_id=sent.get("trace_id"),
        source_dag_run=sent.get("source_dag_run"),
        source_task_instance=sent.get("source_task_instance"),
    )


def _age(event: AssetEvent) -> tuple[datetime, int]:
    return event.timestamp, event.id


@dataclass(kw_only=True)
class OutletEventAccessor:
    """The events of one outlet. They are sent when the job succeeds, never before."""

    name: str
    is_alias: bool
    known: Mapping[str, str]
    extra: dict[str, Any] = field(default_factory=dict)
    """The `extra` of the asset's event. An alias has events of its own, see `add`."""
    _added: list[dict[str, Any]] = field(default_factory=list)

    def add(self, asset: str | Asset, extra: Mapping[str, Any] | None = None) -> None:
        """Add an event of an asset through this alias. A string is the name of an inlet or outlet, or else a uri.

        Raises `AssetJobError` if the outlet is an asset.
        """
        if not self.is_alias:
            raise AssetJobError(
                f"{self.name} is an asset and not an alias: set r.outlet_events[{self.name!r}].extra instead"
            )
        if isinstance(asset, str):
            asset = Asset(uri=self.known[asset], name=asset) if asset in self.known else Asset(uri=asset)
        named = {"name": asset.name, "uri": asset.uri}
        self._added.append({"alias": self.name, "asset": named, "extra": dict(extra or {})})

    def to_send(self) -> list[dict[str, Any]]:
        """The events as the daemon takes them."""
        return self._added if self.is_alias else [{"asset": self.name, "extra": self.extra}]


class OutletEvents:
    """The events of the job's outlets: `outlet_events[asset].extra = {…}`, `outlet_events[alias].add(asset, extra)`.

    An asset is given by name, by uri, or as an `Asset`; an alias by name, or as an `Alias`.
    """

    def __init__(self, outlets: list[dict[str, str]], known: Mapping[str, str], *, any_asset: bool = False) -> None:
        """`any_asset`: no outlets are declared, so every asset is an outlet."""
        self._known, self._any_asset = known, any_asset
        self._outlets = {outlet.get("name") or outlet["alias"]: "alias" in outlet for outlet in outlets}
        self._touched: dict[str, OutletEventAccessor] = {}

    def __getitem__(self, outlet: str | Asset | Alias) -> OutletEventAccessor:
        name = outlet.name if isinstance(outlet, Alias) else asset_key(outlet, self._known)
        if name not in self._outlets and not self._any_asset:
            raise AssetJobError(
                f"{name} is not an outlet of this job: add it to the job's `outlets` in the configuration"
            )
        fresh = OutletEventAccessor(name=name, is_alias=self._outlets.get(name, False), known=self._known)
        return self._touched.setdefault(name, fresh)

    def add(self, metadata: Metadata) -> None:
        """Add an event through an alias; without an alias, add to the `extra` of the outlet's event."""
        if metadata.alias is not None:
            self[metadata.alias].add(metadata.asset, metadata.extra)
        else:
            self[metadata.asset].extra.update(metadata.extra or {})

    def to_send(self) -> list[dict[str, Any]]:
        """The events as the daemon takes them."""
        return [item for event in self._touched.values() for item in event.to_send()]
