"""What Prometheus reads. Counters live in the process that counts; what the database knows is read from it when asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from store.catalog.freshness import Freshness
from store.catalog.watchers import WatcherRow
from watcher.watermarks import open_gaps


class Metrics:
    """The counters of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.store_writes = Counter(
            "watcher_store_writes",
            "Attributed writes and deletes of asset store entries",
            ["kind"],
            registry=self.registry,
        )
        labels = ["watcher", "asset"]
        self.items = Counter("watcher_items", "Files and rows found", labels, registry=self.registry)
        self.events = Counter("watcher_events", "Asset events committed", labels, registry=self.registry)

    def exposition(self, watchers: Sequence[WatcherRow], expected: Sequence[Freshness] = ()) -> bytes:
        """The text that Prometheus scrapes, with how each watcher is doing, and each asset that should get events."""
        stored = CollectorRegistry()
        stored.register(_Watchers(watchers))
        stored.register(_Expected(expected))
        return generate_latest(self.registry) + generate_latest(stored)


class _Expected(Collector):
    def __init__(self, expected: Sequence[Freshness]) -> None:
        self._expected = expected

    def collect(self) -> Iterator[Metric]:
        late = GaugeMetricFamily(
            "watcher_asset_late", "1: no event came for longer than expect_every", labels=["asset"]
        )
        ages = GaugeMetricFamily("watcher_asset_age_seconds", "Since the asset's newest event", labels=["asset"])
        for one in self._expected:
            late.add_metric([one.asset], one.is_late)
            ages.add_metric([one.asset], one.age.total_seconds())
        yield from (late, ages)


class _Watchers(Collector):
    def __init__(self, watchers: Sequence[WatcherRow]) -> None:
        self._watchers = watchers

    def collect(self) -> Iterator[Metric]:
        labels = ["watcher", "asset"]
        errors = CounterMetricFamily("watcher_errors", "Failures of a watcher since it last worked", labels=labels)
        versions = GaugeMetricFamily(
            "watcher_position_version", "Commits and rewinds of a watcher's position", labels=labels
        )
        gaps = GaugeMetricFamily("watcher_gaps", "Gaps that wait for rows of open transactions", labels=labels)
        lags = GaugeMetricFamily("watcher_lag_seconds", "How far a watcher is behind its source", labels=labels)
        for watcher in self._watchers:
            names = [watcher.name, watcher.asset]
            errors.add_metric(names, watcher.error_count)
            versions.add_metric(names, watcher.position_version or 0)
            open_now = open_gaps(None if watcher.watermark is None else json.loads(watcher.watermark))
            if open_now is not None:
                gaps.add_metric(names, open_now)
            if watcher.lag_seconds is not None:
                lags.add_metric(names, watcher.lag_seconds)
        yield from (errors, versions, gaps, lags)
