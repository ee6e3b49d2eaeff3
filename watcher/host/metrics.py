"""The metrics that Prometheus reads. Counters live in the process that counts; the rest is read from the database when asked.

In OpenMetrics a counter has the trace that last moved it as its exemplar.
"""

from __future__ import annotations

import collections
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, partial
from typing import Any, Final, Literal, TypeAlias

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary
from prometheus_client.core import CounterMetricFamily, Exemplar, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from store.base import AssetStoreWriterKind
from store.catalog.assets import AssetRow
from store.catalog.watchers import WatcherRow
from store.detection.outbox import StuckLane
from store.runs.runs import RunRow
from watcher.host.plugins import WatermarkDescription

OUR_OWN: Final = frozenset(
    {
        *(
            "alerts",
            "asset_age_seconds",
            "asset_late",
            "blocked_seconds",
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
ENDS: Final = ("success", "failed")
WARM_STATES: Final = ("starting", "ready", "used")
_SUFFIX: Final = re.compile("_(total|created|sum|count|bucket)$")
_WATCHER: Final = ("watcher", "asset")
_LOOP_LAGS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30)
_WAITS: Final = (0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 300, 1800)
_DURATIONS: Final = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 14400)

Labels: TypeAlias = tuple[str, ...]
"""The values of a metric's labels."""

log = structlog.get_logger()


class Metrics:
    """The counters of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        text = "Attributed writes and deletes of asset store entries"
        self.store_writes = self._counter("store_writes", text, "kind")
        self.sign_in_failures = self._counter("sign_in_failures", "Tokens that were refused")
        self.rejected = self._counter("rejected", "Files and rows that were rejected", *_WATCHER)
        self._writes_of = cache(self.store_writes.labels)
        self._watchers: collections.defaultdict[Labels, _Counts] = collections.defaultdict(_Counts)
        self.registry.register(_WatcherCounts(self._watchers))
        text = "How long the event loop took to give a waiting task its turn"
        self.loop_lag = self._histogram("event_loop_lag_seconds", text, _LOOP_LAGS)
        text = "Time for which a watcher blocked the event loop, a second or more at a time; '' is the daemon's own"
        # This only grows. As a counter it would be named `…_total`, which is not its documented name.
        self.blocked = Gauge("watcher_blocked_seconds", text, ("watcher",), registry=self.registry)
        text = "Reloads of the configuration: applied, unchanged, followed, refused, failed"
        self.reloads = self._counter("reloads", text, "result")
        self._runs = self._counter("runs", "Runs that ended, by how", "dag_id", "state")
        text = "Time from when a run was queued to its start"
        self._run_queue = self._histogram("run_queue_seconds", text, _WAITS, "dag_id")
        text = "Time from a run's start to its end, with all its tries"
        self._run_duration = self._histogram("run_duration_seconds", text, _DURATIONS, "dag_id")
        text = "Time from a run's newest event to the start of the first Spark job of its first try"
        self._first_action = self._histogram("event_to_first_action_seconds", text, _WAITS, "dag_id", "start")

        self.alerts = self._counter("alerts", "Alerts, by what came of each attempt: sent, failed, dropped", "result")
        text = "CPU time of a try's processes on this machine"
        self._cpu = Summary("watcher_try_cpu_seconds", text, ["dag_id"], registry=self.registry)
        text = "Memory, at its highest, of the largest process of a try"
        self._peak_memory = Summary("watcher_try_peak_memory_bytes", text, ["dag_id"], registry=self.registry)
        self._rows = self._counter("try_rows", "Rows that Spark counted: read, written", "dag_id", "direction")
        self._bytes = self._counter("try_bytes", "Bytes that Spark counted: read, written", "dag_id", "direction")
        text = "Drivers that were started ahead: starting, waiting for a try, or used by one"
        self._warm_drivers = Gauge("watcher_warm_drivers", text, ["state"], registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"watcher_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
        return Histogram(f"watcher_{name}", text, labels, buckets=buckets, registry=self.registry)

    def expect_runs(self, dag_ids: Iterable[str]) -> None:
        """Begin the counters of these jobs with 0, so that a first failure shows as an increase."""
        for dag_id in dag_ids:
            for state in ENDS:
                self._runs.labels(dag_id, state)

    def count_writes(self, kind: AssetStoreWriterKind, writes: int, trace_id: str | None = None) -> None:
        """Count committed writes to asset stores."""
        self._writes_of(kind.value).inc(writes, _exemplar(trace_id))

    def count_events(self, labels: tuple[str, str], events: int, items: int, trace_id: str | None) -> None:
        """Count the events and items of a committed batch. `labels` are watcher and asset; the trace is the last event's."""
        counts = self._watchers[labels]
        counts.items += items
        counts.events += events
        if trace_id is not None:
            counts.last_trace = (trace_id, events, time.time())

    def observe_poll(self, labels: tuple[str, str], seconds: float) -> None:
        """Observe a whole poll that was committed or found nothing. `labels` are watcher and asset."""
        counts = self._watchers[labels]
        counts.polls += 1
        counts.poll_seconds += seconds

    def count_rejected(self, labels: tuple[str, str], items: int) -> None:
        """Count the rejected items of a committed batch. `labels` are watcher and asset."""
        if items:
            self.rejected.labels(*labels).inc(items)

    def observe_start(self, run: RunRow) -> None:
        """Observe how long a run that has just started was queued."""
        if run.start_date is not None:
            waited = run.start_date - run.queued_at
            self._run_queue.labels(run.dag_id).observe(_seconds(waited), _exemplar(run.trace_id))

    def count_end(self, run: RunRow) -> None:
        """Count a run that has just ended, and observe its duration."""
        self._runs.labels(run.dag_id, run.state).inc(exemplar=_exemplar(run.trace_id))
        if run.start_date is not None and run.end_date is not None:
            took = run.end_date - run.start_date
            self._run_duration.labels(run.dag_id).observe(_seconds(took), _exemplar(run.trace_id))

    def observe_first_action(
        self, dag_id: str, start: Literal["cold", "warm"], since_event: timedelta, trace_id: str | None
    ) -> None:
        """Observe the time from a run's newest event to its first Spark job. `warm`: a waiting driver took the try."""
        self._first_action.labels(dag_id, start).observe(_seconds(since_event), _exemplar(trace_id))

    def observe_cost(self, dag_id: str, cost: Mapping[str, float]) -> None:
        """Observe the cost of a try that has ended: the known numbers of `store.runs.measures.Cost`."""
        if "cpu_seconds" in cost:
            self._cpu.labels(dag_id).observe(cost["cpu_seconds"])
        if "peak_memory_mb" in cost:
            self._peak_memory.labels(dag_id).observe(cost["peak_memory_mb"] * 1024 * 1024)
        for direction in ("read", "written"):
            for counter, what in ((self._rows, "rows"), (self._bytes, "bytes")):
                if (number := cost.get(f"{what}_{direction}")) is not None:
                    counter.labels(dag_id, direction).inc(number)

    def count_warm_drivers(self, drivers: Callable[[], Mapping[str, int]]) -> None:
        """Call `drivers` for the numbers of warm drivers by state whenever Prometheus asks."""
        for state in WARM_STATES:
            self._warm_drivers.labels(state).set_function(partial(_of_state, drivers, state))

    def exposition(self, snapshot: MetricsSnapshot, accept: str = "") -> tuple[bytes, str]:
        """Return the text that Prometheus scrapes, in a format that it accepts, and the name of that format.

        Blocks: the snapshot's `description_of` may ask child processes. Families are encoded one at a time, because the
        encoder takes several times the memory of its text.
        """
        encode, content_type = choose_encoder(accept)
        together = CollectorRegistry()
        together.register(self.registry)
        together.register(snapshot)
        end = encode(CollectorRegistry())
        families = (encode(_Family(family)).removesuffix(end) for family in together.collect())
        return b"".join(families) + end, content_type


def _of_state(drivers: Callable[[], Mapping[str, int]], state: str) -> float:
    return drivers()[state]


def _exemplar(trace_id: str | None) -> dict[str, str] | None:
    return None if trace_id is None else {"trace_id": trace_id}


def _seconds(time: timedelta) -> float:
    """Return seconds, never negative: a clock may have been set back meanwhile."""
    return max(time.total_seconds(), 0.0)


@dataclass(eq=False, slots=True)
class _Counts:
    """The counts of one watcher in this process. Plain numbers, because there may be ten thousand watchers."""

    items: int = 0
    events: int = 0
    polls: int = 0
    poll_seconds: float = 0.0
    last_trace: tuple[str, int, float] | None = None
    """The trace of the last event, the number of events with it, and its time."""

    @property
    def exemplar(self) -> Exemplar | None:
        if self.last_trace is None:
            return None
        trace_id, events, at = self.last_trace
        return Exemplar({"trace_id": trace_id}, events, at)


@dataclass(frozen=True, eq=False)
class _WatcherCounts(Collector):
    watchers: dict[Labels, _Counts]

    def collect(self) -> Iterator[Metric]:
        watchers = self.watchers.copy().items()
        items = ((labels, counts.items) for labels, counts in watchers)
        yield _filled(CounterMetricFamily("watcher_items", "Files and rows found", labels=_WATCHER), items)
        events = ((labels, counts.events, None, None, counts.exemplar) for labels, counts in watchers)
        yield _filled(CounterMetricFamily("watcher_events", "Asset events committed", labels=_WATCHER), events)
        text = "Whole polls of the source that were committed or found nothing, from beginning to end"
        polls = ((labels, counts.polls, counts.poll_seconds) for labels, counts in watchers)
        yield _filled(SummaryMetricFamily("watcher_poll_seconds", text, labels=_WATCHER), polls)


@dataclass(frozen=True, eq=False)
class _Family(Collector):
    """A collector of a single metric family."""

    family: Metric

    def collect(self) -> Iterator[Metric]:
        yield self.family


@dataclass(frozen=True, kw_only=True, eq=False)
class MetricsSnapshot(Collector):
    """The state of each watcher, and of each asset that should get events, when Prometheus asks.

    Without the database both are empty.
    """

    is_ready: bool
    has_database: bool
    watchers: Sequence[WatcherRow] = ()
    expected: Sequence[AssetRow] = ()
    outbox_depths: Mapping[str, int] = field(default_factory=dict)
    stuck: Sequence[StuckLane] = ()
    description_of: Callable[[WatcherRow], WatermarkDescription] = lambda _watcher: WatermarkDescription()

    def collect(self) -> Iterator[Metric]:
        yield _gauge("ready", "1: the process is ready, as /readyz says", (), [((), self.is_ready)])
        yield _gauge("database_up", "1: the metadata database answers, and commits", (), [((), self.has_database)])
        yield from self._of_watchers()
        yield from self._described()
        late = (((asset.name,), asset.is_late) for asset in self.expected)
        yield _gauge("asset_late", "1: no event came for longer than expect_every", ("asset",), late)
        ages = (((asset.name,), asset.age.total_seconds()) for asset in self.expected)
        yield _gauge("asset_age_seconds", "Seconds since the asset's newest event", ("asset",), ages)
        text = "Messages that wait to be sent to another system"
        depths = (((name,), messages) for name, messages in self.outbox_depths.items())
        yield _gauge("outbox_depth", text, ("destination",), depths)

    def _of_watchers(self) -> Iterator[Metric]:
        rows: dict[Labels, WatcherRow] = {(row.name, row.asset): row for row in self.watchers}
        text = "Failures of a watcher since it last worked"
        errors = ((labels, row.error_count) for labels, row in rows.items())
        yield _filled(CounterMetricFamily("watcher_errors", text, labels=_WATCHER), errors)
        text = "Commits and rewinds of a watcher's position"
        versions = ((labels, row.position_version or 0) for labels, row in rows.items())
        yield _gauge("position_version", text, _WATCHER, versions)
        states = (((*labels, row.state), 1) for labels, row in rows.items())
        yield _gauge("state", "1: how the watcher is doing", (*_WATCHER, "state"), states)
        text = "1: no triggerer hosts the watcher although one should"
        yield _gauge("left_out", text, _WATCHER, ((labels, row.is_unassigned) for labels, row in rows.items()))
        text = "Findings: what breaks, or may break, a condition of exact detection, or keeps an asset's events from Airflow"
        checks = [(*labels, finding["check"]) for labels, row in rows.items() for finding in row.findings_now]
        checks += [("", lane.asset, "forward") for lane in self.stuck if lane.refused and lane.asset is not None]
        yield _gauge("findings", text, (*_WATCHER, "check"), collections.Counter(checks).items())
        text = "Seconds since the start of a watcher's last whole poll that was committed or found nothing"
        lags = ((labels, lag) for labels, row in rows.items() if (lag := row.lag_seconds) is not None)
        yield _gauge("lag_seconds", text, _WATCHER, lags)

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
        yield from (_gauge(name, text, _WATCHER, numbers.items()) for name, numbers in gauges.items())


def _gauge(name: str, text: str, labels: Sequence[str], numbers: Iterable[tuple[Labels, float]]) -> Metric:
    return _filled(GaugeMetricFamily(f"watcher_{name}", text, labels=labels), numbers)


def _filled(family: CounterMetricFamily | GaugeMetricFamily | SummaryMetricFamily, rows: Iterable[Any]) -> Metric:
    """Add rows to a family. A row has the arguments of the family's `add_metric`."""
    for row in rows:
        family.add_metric(*row)
    return family
