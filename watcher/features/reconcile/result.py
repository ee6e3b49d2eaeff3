"""The result of a comparison, what was asked for, and how far it has come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from watcher.features.explain.beginning import Beginning
from watcher.features.reconcile.comparison import Difference


@dataclass(frozen=True, kw_only=True)
class ReconcileRange:
    """Only items written in this range are compared, and so many of the differences are named."""

    since: datetime | None = None
    until: datetime | None = None
    limit: int = 100


@dataclass(kw_only=True)
class ReconcileProgress:
    """How far a comparison has come."""

    listed: int = 0
    events: int = 0


@dataclass(frozen=True, kw_only=True)
class FoundDifference:
    item: str
    kind: Difference


@dataclass(kw_only=True)
class Reconciled:
    """The result. `doubts`: why it may not be exact, in sentences. `beginning` decided about items that no event names."""

    source: int = 0
    reported: int = 0
    loaded: int = 0
    differences: Counter[Difference] = field(default_factory=Counter)
    items: Sequence[FoundDifference] = ()
    doubts: Sequence[str] = ()
    beginning: Beginning | None = None
