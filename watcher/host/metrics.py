"""The metrics that Prometheus reads. Counters live in the process that counts; the rest is read from the database when asked.

In OpenMetrics a counter has the trace that last moved it as its exemplar.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary
from prometheus_client.core import CounterMetricFamily, Exemplar, Metric, SummaryMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from store.base import AssetStoreWriterKind
from store.runs.runs import RunRow
from watcher.host.metrics_snapshot import WATCHER_LABELS, Labels, MetricsSnapshot, filled

ENDS: Final = ("success", "failed")
WARM_STATES: Final = ("starting", "ready", "used")
_LOOP_LAGS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30)
_WAITS: Final = (0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 300, 1800)
_DURATIONS: Final = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 14400)


class Metrics:
    """The counters of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        text = "Attributed writes and deletes of asset store entries"
        self.store_writes = self._counter("store_writes", text, "kind")
        self.sign_in_failures = self._counter("sign_in_failures", "Tokens that were refused")
        self.rejected = self._counter("rejected", "Files and rows that were rejected", *WATCHER_LABELS)
        self.cleaned = self._counter(
            "cleaned", "Files that were moved or deleted after all jobs had loaded them", *WATCHER_LABELS
        )
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
        text = "CPU time of a try's processes, here or in its driver's pod"
        self._cpu = Summary("watcher_try_cpu_seconds", text, ["dag_id"], registry=self.registry)
        text = "Memory, at its highest, of the largest process of a try"
        self._peak_memory = Summary("watcher_try_peak_memory_bytes", text, ["dag_id"], registry=self.registry)
        self._rows = self._counter("try_rows", "Rows that Spark counted: read, written", "dag_id", "direction")
        self._bad_records = self._counter("bad_records", "Bad records that runs left out of their tables", "dag_id")
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
            self._bad_records.labels(dag_id)

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

    def count_cleaned(self, labels: tuple[str, str], files: int) -> None:
        """Count files that were moved or deleted after all jobs had loaded them. `labels` are watcher and asset."""
        if files:
            self.cleaned.labels(*labels).inc(files)

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

    def count_bad_records(self, dag_id: str, records: int) -> None:
        """Count the bad records of a run that has succeeded for the first time."""
        if records:
            self._bad_records.labels(dag_id).inc(records)

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
        yield filled(CounterMetricFamily("watcher_items", "Files and rows found", labels=WATCHER_LABELS), items)
        events = ((labels, counts.events, None, None, counts.exemplar) for labels, counts in watchers)
        yield filled(CounterMetricFamily("watcher_events", "Asset events committed", labels=WATCHER_LABELS), events)
        text = "Whole polls of the source that were committed or found nothing, from beginning to end"
        polls = ((labels, counts.polls, counts.poll_seconds) for labels, counts in watchers)
        yield filled(SummaryMetricFamily("watcher_poll_seconds", text, labels=WATCHER_LABELS), polls)


@dataclass(frozen=True, eq=False)
class _Family(Collector):
    """A collector of a single metric family."""

    family: Metric

    def collect(self) -> Iterator[Metric]:
        yield self.family
