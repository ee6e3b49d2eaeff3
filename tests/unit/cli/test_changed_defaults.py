"""The defaults that change with an upgrade: one list, which the page has as a table and of which `watcher check` prints what concerns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.stand_in_spark import stand_in_spark
from watcher.cli.app import app
from watcher.features.commands.changed_defaults import CHANGED_DEFAULTS, table

VERSIONS = Path(__file__).parents[3] / "docs" / "versions.md"
FILES = {"trigger": "file.new_files", "path": "in", "partition": {"day": "dt={}"}}


def checked(folder: Path, *words: str, files: Any = FILES, **jobs: Any) -> str:
    """Check a configuration whose jobs have these members beside their application; return what is printed."""
    (folder / "in").mkdir()
    (folder / "job.py").touch()
    spark = {"application": "job.py", "env": {"SPARK_HOME": str(stand_in_spark(folder))}}
    document = {
        "version": 1,
        "assets": {"inbox": {"watchers": {"inbox_files": files}}, "manual": {}},
        "jobs": {name: {**job, "spark": spark} for name, job in jobs.items()},
    }
    (folder / "watchers.yaml").write_text(json.dumps(document))
    answer = CliRunner().invoke(app, ["check", "-c", str(folder / "watchers.yaml"), *words])
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def test_the_page_has_the_list() -> None:
    assert table() in VERSIONS.read_text(encoding="utf-8")


def test_a_file_that_no_rule_concerns_has_no_line(tmp_path: Path) -> None:
    each = {"schedule": "inbox", "batch": {"mode": "each"}}
    assert len(checked(tmp_path, each=each, manual={"schedule": "manual"}, alone={}).splitlines()) == 1


def test_one_clear_line_for_each_rule_names_the_jobs_that_it_concerns(tmp_path: Path) -> None:
    cleaned = {**FILES, "clean_source": {"delete": True}}
    complete = {"mode": "per_partition", "complete": {"items": 2}}
    printed = checked(
        tmp_path,
        files=cleaned,
        load={"schedule": "inbox"},
        each={"schedule": "inbox", "batch": {"mode": "each"}},
        daily={"schedule": "inbox", "batch": complete},
        manual={"schedule": "manual"},
    )
    lines = printed.splitlines()
    assert "is right" in lines[0]
    concerned = [("load, daily", "load"), ("load, each, daily", "load"), ("daily", "daily")]
    for line, default, (names, first) in zip(lines[1:], CHANGED_DEFAULTS, concerned, strict=True):
        assert f"jobs.{first}: changed since 0.3.0, for {names}: {default.rule}" in line
        assert default.now in line
        assert default.switch in line


@pytest.mark.parametrize("mode", ["coalesce", "each"])
def test_json_has_the_lines_as_information(tmp_path: Path, mode: str) -> None:
    content = json.loads(checked(tmp_path, "-o", "json", load={"schedule": "inbox", "batch": {"mode": mode}}))
    assert [(each["level"], each["path"]) for each in content] == [("info", "jobs.load")] * (mode == "coalesce")
