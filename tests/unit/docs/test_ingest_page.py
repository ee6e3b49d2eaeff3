from __future__ import annotations

import re
from pathlib import Path

from config.reading.loader import load
from watcher.configuration.vocabulary import vocabulary

PAGE = Path(__file__).resolve().parents[3] / "docs" / "ingest.md"


def test_the_shown_ingestion_is_valid_as_it_is(tmp_path: Path) -> None:
    found = re.search(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    (tmp_path / "watchers.yaml").write_text(found[1], encoding="utf-8")
    configuration = load(tmp_path / "watchers.yaml", vocabulary(), {"LAKE_KEY": "a", "LAKE_SECRET": "b"})
    assert configuration.jobs["ingest_orders"].spark.options["dedupe_key"] == "id"
