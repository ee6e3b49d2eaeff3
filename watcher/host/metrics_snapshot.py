"""The metrics that are read when Prometheus asks: watchers, assets and what features add, from one look at the database."""

from __future__ import annotations

import collections
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog.assets import AssetRow
from store.catalog.watchers import WatcherRow
from watcher.host.plugins import WatermarkDescription

OUR_OWN: Final = frozenset(
    {
        *(
            "alerts",
            "asset_age_seconds",
            "asset_late",
            "bad_records",
            "blocked_seconds",
            "cleaned",
            "database_up",
            "errors",
            "event_loop_lag_seconds",
        ),
        *("event_to_first_action_seconds", "events", "findings", "items", "lag_seconds", "left_out", "poll_seconds"),
        *(
            "outbox_depth",
            "position_version",
            "ready",
            "rejected",
            "reloads",
            "run_duration_seconds",
            "run_queue_seconds",
        ),
        "runs",
        *("sign_in_failures", "state"),
        *("store_writes", "try_bytes", "try_cpu_seconds", "try_peak_memory_bytes", "try_rows", "warm_drivers"),
    }
)
"""Names, after `watcher_`, that no trigger's gauge may have."""
WATCHER_LABELS: Final = ("watcher", "asset")
_SUFFIX: Final = re.compile("_(total|created|sum|count|bucket)$")

Labels: TypeAlias = tuple[str, ...]
"""The values of a metric's labels."""

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class FeatureMetrics:
    """What a feature adds when Prometheus asks: families of its own, and findings as (watcher or '', asset, check)."""

    families: Sequence[Metric] = ()
    findings: Sequence[tuple[str, str, str]] = ()


MetricsOf: TypeAlias = Callable[[AsyncConnection], Awaitable[FeatureMetrics]]
"""Reads the metrics of a feature from the database."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MetricsSnapshot(Collector):
    """The state of each watcher, and of each asset that should get events, when Prometheus asks.

    Without the database both are empty.
    """

    is_ready: bool
    has_database: bool
    watchers: Sequence[WatcherRow] = ()
    expected: Sequence[AssetRow] = ()
    of_features: Sequence[FeatureMetrics] = ()
    description_of: Callable[[WatcherRow], WatermarkDescription] = lambda _watcher: WatermarkDescription()

    def collect(self) -> Iterator[Metric]:
        yield gauge("ready", "1: the process is ready, as /readyz says", (), [((), self.is_ready)])
        yield gauge("database_up", "1: the metadata database answers, and commits", (), [((), self.has_database)])
        yield from self._of_watchers()
        yield from self._described()
        late = (((asset.name,), asset.is_late) for asset in self.expected)
        yield gauge("asset_late", "1: no event came for longer than expect_every", ("asset",), late)
        ages = (((asset.name,), asset.age.total_seconds()) for asset in self.expected)
        yield gauge("asset_age_seconds", "Seconds since the asset's newest event", ("asset",), ages)
        for each in self.of_features:
            yield from each.families

    def _of_watchers(self) -> Iterator[Metric]:
        rows: dict[Labels, WatcherRow] = {(row.name, row.asset): row for row in self.watchers}
        text = "Failures of a watcher since it last worked"
        errors = ((labels, row.error_count) for labels, row in rows.items())
        yield filled(CounterMetricFamily("watcher_errors", text, labels=WATCHER_LABELS), errors)
        text = "Commits and rewinds of a watcher's position"
        versions = ((labels, row.position_version or 0) for labels, row in rows.items())
        yield gauge("position_version", text, WATCHER_LABELS, versions)
        states = (((*labels, row.state), 1) for labels, row in rows.items())
        yield gauge("state", "1: how the watcher is doing", (*WATCHER_LABELS, "state"), states)
        text = "1: no triggerer hosts the watcher although one should"
        yield gauge("left_out", text, WATCHER_LABELS, ((labels, row.is_unassigned) for labels, row in rows.items()))
        text = "Findings: what breaks, or may break, a condition of exact detection, or keeps an asset's events from Airflow"
        checks = [
            (*labels, finding["check"])
            for labels, row in rows.items()
            for finding in row.findings_now
            if finding["level"] != "info"
        ]
        checks += [finding for each in self.of_features for finding in each.findings]
        yield gauge("findings", text, (*WATCHER_LABELS, "check"), collections.Counter(checks).items())
        text = "Seconds since the start of a watcher's last whole poll that was committed or found nothing"
        lags = ((labels, lag) for labels, row in rows.items() if (lag := row.lag_seconds) is not None)
        yield gauge("lag_seconds", text, WATCHER_LABELS, lags)

    def _described(self) -> Iterator[Metric]:
        """Yield the gauges that triggers make of their watermarks."""
        gauges: dict[str, dict[Labels, float]] = {}
        for watcher in self.watchers:
            description = self.description_of(watcher)
            if description.fault is not None:
                log.warning("watcher.not_described", watcher=watcher.name, error=description.fault)
            for name, number in description.gauges.items():
                if _SUFFIX.sub("", name) in OUR_OWN:
                    log.warning("watcher.gauge_refused", watcher=watcher.name, gauge=name, remedy="rename the gauge")
                else:
                    gauges.setdefault(name, {})[watcher.name, watcher.asset] = number
        text = "A number in the watermark, as the watcher's trigger describes it"
        yield from (gauge(name, text, WATCHER_LABELS, numbers.items()) for name, numbers in gauges.items())


def gauge(name: str, text: str, labels: Sequence[str], numbers: Iterable[tuple[Labels, float]]) -> Metric:
    """Return a gauge `watcher_<name>` with a number for each tuple of values of its labels."""
    return filled(GaugeMetricFamily(f"watcher_{name}", text, labels=labels), numbers)


def filled(family: CounterMetricFamily | GaugeMetricFamily | SummaryMetricFamily, rows: Iterable[Any]) -> Metric:
    """Add rows to a family. A row has the arguments of the family's `add_metric`."""
    for row in rows:
        family.add_metric(*row)
    return family
