"""The files in deploy/ fit this program: a valid configuration, existing metrics. tests/service/kubernetes has the chart."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from config.reading.loader import load
from watcher.configuration.vocabulary import vocabulary

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
RELEASE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
GIVEN_BY_PROMETHEUS = {"instance", "le"}


def documents(name: str) -> list[Any]:
    return list(YAML(typ="safe").load_all((DEPLOY / name).read_text(encoding="utf-8")))


def check(content: str, folder: Path, **environment: str) -> None:
    file = folder / "watchers.yaml"
    file.write_text(content, encoding="utf-8")
    assert load(file, vocabulary(), environment, with_files=True).warnings == ()


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    [document] = documents("compose.yaml")
    return dict(document)


def test_the_configuration_of_compose_is_valid(compose: Mapping[str, Any], tmp_path: Path) -> None:
    content = (DEPLOY / "compose" / "watchers.yaml").read_text(encoding="utf-8")
    check(content, tmp_path, **compose["services"]["watcher"]["environment"])


def test_compose_names_only_existing_files(compose: Mapping[str, Any]) -> None:
    services = compose["services"]
    assert {"airflow", "postgres", "storage", "watcher"} <= services.keys()
    for service in services.values():
        assert services.keys() >= set(service.get("depends_on", ()))
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in compose["volumes"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), "passwords stand in the file"
    assert services["watcher"]["image"].endswith(f":-{RELEASE}}}")


def told() -> dict[str, set[str]]:
    """Return the labels of each metric in docs/metrics.md, which other tests compare with the program."""
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(watcher_\w+)` \|(.*?)\|", page, re.MULTILINE)
    return {name: {label.strip() for label in labels.strip(" `").split(",")} for name, labels in rows}


def expressions() -> Iterator[str]:
    dashboard = json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield re.sub(r"label_values\((\w+), (\w+)\)", r"count by (\2) (\1)", variable["query"])


def test_the_dashboard_uses_only_metrics_and_labels_that_exist() -> None:
    metrics = told()
    for expression in expressions():
        assert all(expression.count(left) == expression.count(right) for left, right in ("()", "{}", "[]")), expression
        names = {re.sub("_(bucket|sum|count)$", "", name) for name in re.findall(r"watcher_[a-z_]+", expression)}
        assert names, expression
        assert names <= metrics.keys(), expression
        grouped = [
            label.strip() for labels in re.findall(r"\bby \(([^)]*)\)", expression) for label in labels.split(",")
        ]
        asked = {*grouped, *re.findall(r"[{,]\s*(\w+)\s*(?:=|!)", expression)} - GIVEN_BY_PROMETHEUS
        assert asked <= set.union(*(metrics[name] for name in names)), expression


def test_the_dashboard_is_laid_out_without_gaps_and_overlaps() -> None:
    dashboard = json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))
    covered = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in dashboard["panels"]
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(covered) == len(set(covered))
    assert max(x for x, _ in covered) < 24
    names = {variable["name"] for variable in dashboard["templating"]["list"]} | {"__rate_interval"}
    assert set(re.findall(r"\$(\w+)", "".join(expressions()))) <= names
