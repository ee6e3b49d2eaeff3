"""What Prometheus reads. Counters live in the process that counts; what the database knows is read from it when asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from store.catalog.assets import Asset
from store.catalog.watchers import WatcherRow
from watcher.vocabulary import Descriptions, describe

OUR_OWN: Final = frozenset(
    {
        *("asset_age_seconds", "asset_late", "blocked_seconds", "errors", "event_loop_lag_seconds", "events", "items"),
        *("lag_seconds", "left_out", "position_version", "sign_in_failures", "store_writes"),
    }
)
"""Names, behind `watcher_`, that no trigger's gauge may have."""
_LABELS: Final = ("watcher", "asset")

log = structlog.get_logger()


class Metrics:
    """The counters of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        text = "Attributed writes and deletes of asset store entries"
        self.store_writes = Counter("watcher_store_writes", text, ["kind"], registry=self.registry)
        text = "Tokens that were refused"
        self.sign_in_failures = Counter("watcher_sign_in_failures", text, registry=self.registry)
        self.items = Counter("watcher_items", "Files and rows found", _LABELS, registry=self.registry)
        self.events = Counter("watcher_events", "Asset events committed", _LABELS, registry=self.registry)
        self.loop_lag = Histogram(
            "watcher_event_loop_lag_seconds",
            "How long the event loop took to give a waiting task its turn",
            buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30),
            registry=self.registry,
        )
        text = "Time for which a watcher kept the event loop for itself, a second or more at a time; '' is the daemon's own"
        self.blocked = Counter("watcher_blocked_seconds", text, ["watcher"], registry=self.registry)

    def exposition(
        self, watchers: Sequence[WatcherRow], expected: Sequence[Asset] = (), descriptions: Descriptions | None = None
    ) -> bytes:
        """The text that Prometheus scrapes, with how each watcher is doing, and each asset that should get events.

        Blocking where there are `descriptions`, which ask children.
        """
        return generate_latest(self.registry) + generate_latest(_Stored(watchers, expected, descriptions))


@dataclass(frozen=True)
class _Stored(Collector):
    watchers: Sequence[WatcherRow]
    expected: Sequence[Asset]
    descriptions: Descriptions | None

    def collect(self) -> Iterator[Metric]:
        errors = CounterMetricFamily("watcher_errors", "Failures of a watcher since it last worked", labels=_LABELS)
        text = "Commits and rewinds of a watcher's position"
        versions = GaugeMetricFamily("watcher_position_version", text, labels=_LABELS)
        text = "1: no triggerer hosts the watcher although one should"
        left_out = GaugeMetricFamily("watcher_left_out", text, labels=_LABELS)
        text = "Since the last whole look of a watcher that is committed, or found nothing, began"
        lags = GaugeMetricFamily("watcher_lag_seconds", text, labels=_LABELS)
        for watcher in self.watchers:
            if watcher.lag_seconds is not None:
                lags.add_metric([watcher.name, watcher.asset], watcher.lag_seconds)
            left_out.add_metric([watcher.name, watcher.asset], watcher.is_left_out)
            errors.add_metric([watcher.name, watcher.asset], watcher.error_count)
            versions.add_metric([watcher.name, watcher.asset], watcher.position_version or 0)
        yield from (errors, versions, lags, left_out, *self._described())
        text = "1: no event came for longer than expect_every"
        late = GaugeMetricFamily("watcher_asset_late", text, labels=["asset"])
        ages = GaugeMetricFamily("watcher_asset_age_seconds", "Since the asset's newest event", labels=["asset"])
        for asset in self.expected:
            late.add_metric([asset.name], asset.is_late)
            ages.add_metric([asset.name], asset.age.total_seconds())
        yield from (late, ages)

    def _described(self) -> Iterator[Metric]:
        """What the triggers say of their watermarks."""
        gauges: dict[str, GaugeMetricFamily] = {}
        for watcher in self.watchers:
            watermark = None if watcher.watermark is None else json.loads(watcher.watermark)
            if self.descriptions is None:
                description = describe(watcher.trigger, watermark)
            else:
                description = self.descriptions.describe(watcher.trigger, watermark, watcher.name)
            if description.fault is not None:
                log.warning("watcher.not_described", watcher=watcher.name, error=description.fault)
            for name, number in description.gauges.items():
                if name.removesuffix("_total").removesuffix("_created") in OUR_OWN:
                    log.warning("watcher.gauge_refused", watcher=watcher.name, gauge=name, remedy="rename the gauge")
                    continue
                if name not in gauges:
                    text = "A number in the watermark, as the watcher's trigger describes it"
                    gauges[name] = GaugeMetricFamily(f"watcher_{name}", text, labels=_LABELS)
                gauges[name].add_metric([watcher.name, watcher.asset], number)
        yield from gauges.values()
