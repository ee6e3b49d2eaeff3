"""The words a configuration may use that this package does not know itself; `watcher/app.py` supplies them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel


@dataclass(frozen=True, kw_only=True)
class TriggerKind:
    """What a watcher's YAML must hold for one trigger."""

    options: type[BaseModel]
    """Validates the watcher's keys other than `trigger` and `connection`."""
    connection_type: str | None
    """The `type` of the connection the watcher must name; None: it must name none."""
    defaults: Callable[[str], Mapping[str, Any]]
    """Options that an asset's URI implies; keys in the YAML win. The URI is normalised but keeps a trailing slash,
    which matters to a prefix. May raise ValueError with a sentence."""


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """`trigger`, `connection` and `submitter` look up a registered name or a dotted path; all raise `UnknownClass`."""

    trigger: Callable[[str], TriggerKind]
    connection: Callable[[str], type[BaseModel]]
    """By the `type` in the YAML, which is a field of the model."""
    submitter: Callable[[str], type[BaseModel]]
    """Of a job's submitter: what its `spark` section may hold beside the known keys."""
    triggers: Mapping[str, TriggerKind]
    """The registered names, for the JSON Schema; so are `connections` and `submitters`."""
    connections: Mapping[str, type[BaseModel]]
    submitters: Mapping[str, type[BaseModel]]
    add_plugins: Callable[[Path], None]
    """Called with `settings.plugins_dir` before the first dotted path is looked up."""
