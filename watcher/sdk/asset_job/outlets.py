"""Assets and aliases as a job names them, and the events that it gives its outlets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
    """`outlet_events[asset].extra = {…}` and `outlet_events[alias].add(asset, extra)`, for the job's outlets."""

    def __init__(self, outlets: list[dict[str, str]], known: Mapping[str, str], *, any_asset: bool = False) -> None:
        """`any_asset`: nobody has declared outlets, so whatever is named is one."""
        self._known, self._any_asset = known, any_asset
        self._outlets = {outlet.get("name") or outlet["alias"]: "alias" in outlet for outlet in outlets}
        self._touched: dict[str, OutletEvent] = {}

    def __getitem__(self, name: str) -> OutletEvent:
        if name not in self._outlets and not self._any_asset:
            raise AssetJobError(f"{name} is no outlet of this job: add it to the job's `outlets` in the configuration")
        fresh = OutletEvent(name=name, is_alias=self._outlets.get(name, False), known=self._known)
        return self._touched.setdefault(name, fresh)

    def add(self, metadata: Metadata) -> None:
        """One event more through its alias, or more to say in the one event of an outlet."""
        if metadata.alias is not None:
            self[metadata.alias].add(metadata.asset, metadata.extra)
        else:
            name = metadata.asset if isinstance(metadata.asset, str) else metadata.asset.name or metadata.asset.uri
            self[name].extra.update(metadata.extra or {})

    def to_send(self) -> list[dict[str, Any]]:
        return [item for event in self._touched.values() for item in event.to_send()]
