"""The alert rules are valid and use only metrics that a process exposes. docs/metrics.md has each metric."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from ruamel.yaml import YAML

from store.base import AssetStoreWriterKind
from store.catalog.assets import AssetRow
from store.catalog.watchers import WatcherRow
from store.runs.runs import RunRow
from watcher.configuration.vocabulary import Descriptions
from watcher.host.metrics import Metrics
from watcher.host.metrics_snapshot import OUR_OWN, FeatureMetrics, MetricsSnapshot, gauge

ROOT = Path(__file__).parents[3]
RULES = ROOT / "deploy" / "alerts.yaml"
NOW = datetime(2026, 11, 20, tzinfo=UTC)
TRACE = "0af7651916cd43dd8448eb211c80319c"
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
GIVEN_BY_PROMETHEUS = {"instance", "value"}
DESCRIBED = "gaps"
"""A gauge that a built-in trigger adds."""

T = TypeVar("T")


def made(shape: type[T], **values: Any) -> T:
    """Make an instance with empty values in its other fields."""
    return shape(**{**dict.fromkeys(shape.__dataclass_fields__), **values})  # type: ignore[attr-defined]  # a dataclass


@cache
def samples() -> list[Sample]:
    """Return the metrics of a process in which everything has happened."""
    metrics = Metrics()
    metrics.expect_runs(["load"])
    metrics.reloads.labels("applied").inc()
    metrics.alerts.labels("sent").inc()
    metrics.count_writes(AssetStoreWriterKind.TASK, 1, TRACE)
    metrics.count_events(("files", "inbox"), 1, 1, TRACE)
    metrics.count_rejected(("files", "inbox"), 1)
    metrics.count_cleaned(("files", "inbox"), 1)
    metrics.observe_poll(("files", "inbox"), 0.1)
    metrics.blocked.labels("files").inc(2)
    metrics.loop_lag.observe(0.1)
    times = {"queued_at": NOW, "start_date": NOW + timedelta(seconds=1), "end_date": NOW + timedelta(seconds=9)}
    run = made(RunRow, dag_id="load", state="failed", trace_id=TRACE, **times)
    metrics.observe_start(run)
    metrics.count_end(run)
    metrics.observe_first_action("load", "warm", timedelta(seconds=3), TRACE)
    metrics.observe_cost("load", {"cpu_seconds": 3, "peak_memory_mb": 400, "rows_read": 1, "bytes_written": 1})
    metrics.count_warm_drivers(lambda: {"starting": 1, "ready": 0, "used": 2})
    looks = {
        "last_poll_at": NOW,
        "lag_at_poll": 3,
        "seen_at": NOW,
        "error_count": 1,
        "watermark": '{"gaps": 1, "open_ids": 2}',
    }
    finding = {"check": "partition", "level": "warning", "message": "m", "remedy": "r", "since": "2026-11-20T09:00:00Z"}
    looks["findings"] = json.dumps([finding])
    row = made(WatcherRow, name="files", asset="inbox", trigger="postgres.new_rows", state="failing", **looks)
    asset = made(AssetRow, name="inbox", created_at=NOW, seen_at=NOW)
    snapshot = MetricsSnapshot(
        is_ready=True,
        has_database=True,
        watchers=[row],
        expected=[asset],
        of_features=[
            FeatureMetrics(families=[gauge("outbox_depth", "Messages", ("destination",), [(("airflow",), 2)])])
        ],
        description_of=Descriptions().of_watcher,
    )
    text, content_type = metrics.exposition(snapshot, OPENMETRICS)
    assert content_type.startswith("application/openmetrics-text")
    return [sample for family in text_string_to_metric_families(text.decode()) for sample in family.samples]


def rules() -> Iterator[Mapping[str, Any]]:
    for group in YAML(typ="safe").load(RULES)["groups"]:
        assert group.keys() == {"name", "rules"}
        yield from group["rules"]


def test_rules_have_what_prometheus_and_people_need() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names))
    for rule in rules():
        assert rule.keys() - {"for"} == {"alert", "expr", "labels", "annotations"}, rule["alert"]
        assert re.fullmatch("[0-9]+[mh]", rule.get("for", "1m")), rule["alert"]
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
        assert rule["expr"].count("(") == rule["expr"].count(")")


def test_each_rule_leads_to_a_page_of_its_own() -> None:
    pages = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in rules()}
    assert pages == {name: f"docs/runbooks/{name}.md" for name in pages}
    index = (ROOT / "docs/runbooks/README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[(\w+)\]\(\1\.md\) \| (\w+) \|", index, re.MULTILINE) == [
        (rule["alert"], rule["labels"]["severity"]) for rule in rules()
    ]
    there = {page.stem for page in (ROOT / "docs/runbooks").glob("*.md")}
    assert there == {*pages, "README"}
    for name, page in pages.items():
        text = (ROOT / page).read_text(encoding="utf-8")
        assert re.findall(r"^#+ (.*)$", text, re.MULTILINE) == [name, "Look", "Do"]


def test_rules_use_only_metrics_and_labels_that_exist() -> None:
    labels: dict[str, set[str]] = {}
    for sample in samples():
        labels.setdefault(sample.name, set()).update(sample.labels)
    for rule in rules():
        metrics = re.findall(r"watcher_[a-z_]+", rule["expr"])
        assert metrics, rule["alert"]
        assert labels.keys() >= set(metrics), rule["alert"]
        known = set.union(*(labels[name] for name in metrics)) | GIVEN_BY_PROMETHEUS
        named = re.findall(r"\b(?:by|on) \(([^)]*)\)", rule["expr"])
        named += re.findall(r"(\w+)=", rule["expr"]) + re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))
        assert {name.strip() for names in named for name in names.split(",")} <= known, rule["alert"]


def test_rules_about_states_name_existing_states() -> None:
    lists = (names for rule in rules() for names in re.findall('watcher_state{state=~?"(.*?)"}', rule["expr"]))
    assert {name for names in lists for name in names.split("|")} == {
        "failing",
        "unstable",
        "blocked",
        "paused",
        "waiting",
    }


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed here")
def test_promtool_accepts_the_rules() -> None:
    checked = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_metric_is_documented_and_its_name_is_reserved() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    table = dict(re.findall(r"^\| `watcher_(\w+)` \|(.*?)\|", page, re.MULTILINE))
    families = {re.sub("_(count|sum|bucket|created|total)$", "", sample.name) for sample in samples()}
    assert families == {f"watcher_{name}" for name in OUR_OWN | {DESCRIBED}}
    assert {f"watcher_{name.removesuffix('_total')}" for name in table} == families
    totals = {sample.name.removeprefix("watcher_") for sample in samples() if sample.name.endswith("_total")}
    assert {name for name in table if name.endswith("_total")} == totals
    for name, labels in table.items():
        documented = {label.strip() for label in labels.strip(" `").split(",") if label}
        told = {label for sample in samples() if sample.name.startswith(f"watcher_{name}") for label in sample.labels}
        assert told - {"le"} == documented, name


def test_a_metric_has_the_trace_that_changed_it_as_an_exemplar() -> None:
    traced = {sample.name for sample in samples() if sample.exemplar and sample.exemplar.labels == {"trace_id": TRACE}}
    assert traced == {
        "watcher_events_total",
        "watcher_store_writes_total",
        "watcher_runs_total",
        "watcher_run_queue_seconds_bucket",
        "watcher_run_duration_seconds_bucket",
        "watcher_event_to_first_action_seconds_bucket",
    }


def test_a_client_that_does_not_accept_openmetrics_gets_the_older_format() -> None:
    text, content_type = Metrics().exposition(MetricsSnapshot(is_ready=False, has_database=False))
    assert content_type.startswith("text/plain")
    assert "watcher_ready 0.0" in text.decode().splitlines()
