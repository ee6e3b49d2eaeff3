"""What Prometheus reads. Counters live in the process that counts; what the database knows is read from it when asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from store.catalog.assets import Asset
from store.catalog.watchers import WatcherRow
from watcher.vocabulary import describe

OUR_OWN: Final = frozenset(
    {
        *("asset_age_seconds", "asset_late", "blocked_seconds", "errors", "event_loop_lag_seconds", "events", "items"),
        *("lag_seconds", "position_version", "store_writes"),
    }
)
"""Names, behind `watcher_`, that no trigger's gauge may have."""

log = structlog.get_logger()


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
        self.loop_lag = Histogram(
            "watcher_event_loop_lag_seconds",
            "How long the event loop took to give a waiting task its turn",
            buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30),
            registry=self.registry,
        )
        self.blocked = Counter(
            "watcher_blocked_seconds",
            "Time for which a watcher kept the event loop for itself, a second or more at a time; '' is the daemon's own",
            ["watcher"],
            registry=self.registry,
        )
        self.events = Counter("watcher_events", "Asset events committed", labels, registry=self.registry)

    def exposition(self, watchers: Sequence[WatcherRow], expected: Sequence[Asset] = ()) -> bytes:
        """The text that Prometheus scrapes, with how each watcher is doing, and each asset that should get events."""
        stored = CollectorRegistry()
        stored.register(_Watchers(watchers))
        stored.register(_Expected(expected))
        return generate_latest(self.registry) + generate_latest(stored)


class _Expected(Collector):
    def __init__(self, expected: Sequence[Asset]) -> None:
        self._expected = expected

    def collect(self) -> Iterator[Metric]:
        late = GaugeMetricFamily(
            "watcher_asset_late", "1: no event came for longer than expect_every", labels=["asset"]
        )
        ages = GaugeMetricFamily("watcher_asset_age_seconds", "Since the asset's newest event", labels=["asset"])
        for asset in self._expected:
            late.add_metric([asset.name], asset.is_late)
            ages.add_metric([asset.name], asset.age.total_seconds())
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
        for watcher in self._watchers:
            names = [watcher.name, watcher.asset]
            errors.add_metric(names, watcher.error_count)
            versions.add_metric(names, watcher.position_version or 0)
        yield from (errors, versions)
        yield from self._described(labels)

    def _described(self, labels: list[str]) -> Iterator[Metric]:
        """What the triggers say of their watermarks."""
        gauges: dict[str, GaugeMetricFamily] = {}
        for watcher in self._watchers:
            description = describe(
                watcher.trigger, None if watcher.watermark is None else json.loads(watcher.watermark)
            )
            if description.fault is not None:
                log.warning("watcher.not_described", watcher=watcher.name, error=description.fault)
            for name, number in description.gauges.items():
                if name.removesuffix("_total").removesuffix("_created") in OUR_OWN:
                    log.warning("watcher.gauge_refused", watcher=watcher.name, gauge=name, remedy="rename the gauge")
                    continue
                if name not in gauges:
                    text = "A number in the watermark, as the watcher's trigger describes it"
                    gauges[name] = GaugeMetricFamily(f"watcher_{name}", text, labels=labels)
                gauges[name].add_metric([watcher.name, watcher.asset], number)
        yield from gauges.values()
