"""The examples are valid, and name only files that exist."""

from __future__ import annotations

from pathlib import Path

from config.reading.loader import load
from watcher.configuration.vocabulary import vocabulary

ROOT = Path(__file__).resolve().parents[3]
QUICKSTART = ROOT / "examples" / "quickstart"
KUBERNETES = ROOT / "examples" / "kubernetes"


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


def test_the_example_for_kubernetes_is_valid_and_shown_on_its_page() -> None:
    load(KUBERNETES / "watchers.yaml", vocabulary(), {}, with_files=True)
    page = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    assert (KUBERNETES / "watchers.yaml").read_text(encoding="utf-8") in page
