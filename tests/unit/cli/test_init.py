"""`watcher init` writes a valid project, overwrites nothing, and asks for missing arguments."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer.testing
from typer.testing import CliRunner, Result

from config.reading.loader import load
from watcher.cli.app import app
from watcher.configuration.vocabulary import vocabulary

pytestmark = pytest.mark.feature("init")

Init = Callable[..., Result]


@pytest.fixture
def init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Init:
    monkeypatch.chdir(tmp_path)

    def run(*words: str, exits: int = 0, given: str | None = None) -> Result:
        result = CliRunner().invoke(app, ["init", *words], input=given)
        assert result.exit_code == exits, result.output
        return result

    return run


@pytest.mark.parametrize(
    ("source", "target", "trigger"),
    [
        ("inbox", "tables/orders", "file.new_files"),
        ("s3://lake/raw/orders", "s3://lake/tables/orders", "s3.new_files"),
        ("postgres://me@db/shop/public/orders", "/data/orders", "postgres.new_rows"),
    ],
)
def test_a_project_is_a_valid_configuration_a_job_and_its_test(
    init: Init, tmp_path: Path, source: str, target: str, trigger: str
) -> None:
    said = json.loads(init("mine", "--source", source, "--target", target, "--json").stdout)
    assert said["files"] == ["jobs/load_orders.py", "tests/test_load_orders.py", "watchers.yaml"]
    configuration = load(tmp_path / "mine" / "watchers.yaml", vocabulary(), {}, with_files=True)
    [watcher] = configuration.watchers.values()
    assert watcher.trigger == trigger
    assert configuration.jobs["load_orders"].spark.connections == tuple(configuration.connections)
    for path in said["files"][:2]:
        compile((tmp_path / "mine" / path).read_text(), path, "exec")


@pytest.mark.parametrize("source", ["inbox", "s3://lake/raw/orders", "postgres://me@db/shop/public/orders"])
@pytest.mark.parametrize("table_format", ["parquet", "delta", "iceberg"])
def test_each_format_is_a_valid_project_in_lines_of_at_most_80_columns(
    init: Init, tmp_path: Path, source: str, table_format: str
) -> None:
    target = "s3://lake/tables/orders"
    init(".", "--source", source, "--target", target, "--format", table_format, "--endpoint", "http://minio:9000")
    text = (tmp_path / "watchers.yaml").read_text()
    lines = text.replace(str(tmp_path), "/here").splitlines()
    assert [line for line in lines if len(line) > 80 or "{" in line.replace("${", "")] == []
    configuration = load(tmp_path / "watchers.yaml", vocabulary(), {}, with_files=True)
    assert "endpoint_url='http://minio:9000" in repr(configuration.connections["lake"])
    spark = configuration.jobs["load_orders"].spark
    assert ("ice" in spark.connections) == (table_format == "iceberg")
    job = (tmp_path / "jobs" / "load_orders.py").read_text()
    assert (f'format="{table_format}"' in job) == (table_format != "parquet")
    for path in ("jobs/load_orders.py", "tests/test_load_orders.py"):
        compile((tmp_path / path).read_text(), path, "exec")


def test_an_endpoint_that_nothing_uses_is_refused(init: Init, tmp_path: Path) -> None:
    words = ("--source", "in", "--target", "out", "--endpoint", "http://minio:9000")
    assert "neither the source nor the target" in init(*words, exits=2).stderr
    assert list(tmp_path.iterdir()) == []


def test_the_next_steps_are_typed_as_they_stand_without_an_activated_environment(
    init: Init, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    said = init("mine", "--source", "in", "--target", "out").stdout
    program = Path(sys.executable).with_name("watcher")
    assert f"  {program} check --connect" in said
    assert f"  {sys.executable} -m pytest tests" in said


def test_existing_files_are_not_overwritten(init: Init, tmp_path: Path) -> None:
    words = ("--source", "inbox", "--target", "orders")
    init(*words, "--match", "*.csv")
    before = (tmp_path / "watchers.yaml").read_text()
    assert '        match: "*.csv"\n' in before
    refused = init(*words, exits=5)
    assert "watchers.yaml, jobs/load_orders.py, tests/test_load_orders.py: there already" in refused.stderr
    assert (tmp_path / "watchers.yaml").read_text() == before


def test_an_invalid_source_or_name_is_refused_in_a_sentence(init: Init, tmp_path: Path) -> None:
    assert "give a folder, s3://bucket/prefix/ or" in init("--source", "kafka://t", "--target", "o", exits=2).stderr
    refused = init("--source", "in", "--target", "o", "--name", "my orders", exits=2)
    assert "cannot be a module's name" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_missing_arguments_are_asked_for_only_on_a_terminal(
    init: Init, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "say it with --target" in init("--source", "inbox", exits=2).stderr
    monkeypatch.setattr(typer.testing._NamedTextIOWrapper, "isatty", lambda _: True)
    asked = init(given="inbox\ntables/sums\n").output
    assert "Where does new data appear?" in asked
    assert (tmp_path / "jobs" / "load_sums.py").is_file()
