"""The examples are valid, and name only files that exist."""

from __future__ import annotations

from pathlib import Path

from config.reading.loader import load
from watcher.configuration.vocabulary import vocabulary

QUICKSTART = Path(__file__).resolve().parents[3] / "examples" / "quickstart"


def test_the_quickstart_is_valid_and_complete() -> None:
    configuration = load(QUICKSTART / "watchers.yaml", vocabulary(), {"PWD": str(QUICKSTART)})
    (watcher,) = configuration.assets["inbox"].watchers.values()
    (job,) = configuration.jobs.values()
    assert watcher.trigger == "file.new_files"
    assert watcher.options.model_dump()["path"] == str(QUICKSTART / "inbox")
    assert Path(job.spark.application).is_file()
    assert sorted((QUICKSTART / "inbox").glob("*.csv")), "nothing to load at the first start"


def test_the_quickstart_needs_no_credentials() -> None:
    text = (QUICKSTART / "watchers.yaml").read_text(encoding="utf-8")
    assert "connections:" not in text
