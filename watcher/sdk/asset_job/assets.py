"""How a job names assets and aliases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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
