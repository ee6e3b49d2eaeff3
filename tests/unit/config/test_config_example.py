"""The whole example loads with the triggers that are shipped."""

from __future__ import annotations

import json
import os
import re
from datetime import timedelta
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from pydantic import SecretStr
from ruamel.yaml import YAML

from config.errors import ConfigurationInvalid
from config.features.publishing import WRITTEN_SCHEMA
from config.features.publishing.json_schema import json_schema
from config.reading.loader import load
from config.vocabulary import Vocabulary
from watcher.configuration.vocabulary import vocabulary

EXAMPLE = Path(__file__).parents[3] / "examples" / "full" / "watchers.yaml"
ENVIRON = {"LAKE_KEY": "key", "LAKE_SECRET": "hunter22-secret", "SHOP_DSN": "postgresql://shop:hunter22@localhost/shop"}


@pytest.fixture(scope="module")
def shipped() -> Vocabulary:
    return vocabulary()


def test_the_whole_example_loads(shipped: Vocabulary) -> None:
    configuration = load(EXAMPLE, shipped, ENVIRON, with_files=True)
    assert list(configuration.watchers) == ["landing_orders_files", "customers_rows", "inbox_files"]
    assert configuration.watchers["landing_orders_files"].options.model_dump()["lateness"] == timedelta(hours=24)
    assert configuration.watchers["inbox_files"].options.model_dump()["mode"] == "strict"
    lake = configuration.connections["lake"].model_dump()
    assert lake["secret_access_key"] == SecretStr(ENVIRON["LAKE_SECRET"])
    assert configuration.jobs["load_orders"].task_id == "load"
    assert len(configuration.hash) == 64
    assert "hunter22" not in repr(configuration)


def test_the_example_shows_the_defaults_of_the_settings(shipped: Vocabulary, tmp_path: Path) -> None:
    bare = tmp_path / "watchers.yaml"
    bare.write_text("version: 1\nsettings: {home: /h, plugins_dir: /p}")
    at_same_place = {"WATCHER_SETTINGS__HOME": "/h", "WATCHER_SETTINGS__PLUGINS_DIR": "/p"}
    assert load(EXAMPLE, shipped, ENVIRON | at_same_place).settings == load(bare, shipped, {}).settings


def test_options_that_the_uri_implies_may_be_omitted(shipped: Vocabulary, tmp_path: Path) -> None:
    shorter = tmp_path / "watchers.yaml"
    implied = r"^        (bucket|prefix|table): .*\n"
    shorter.write_text(re.sub(implied, "", EXAMPLE.read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert load(shorter, shipped, ENVIRON).watchers == load(EXAMPLE, shipped, ENVIRON).watchers


def test_the_minimum_age_is_below_the_lateness(shipped: Vocabulary, tmp_path: Path) -> None:
    broken = tmp_path / "watchers.yaml"
    broken.write_text(EXAMPLE.read_text(encoding="utf-8").replace("min_age: 0s ", "min_age: 24h"))
    with pytest.raises(ConfigurationInvalid, match=r"watchers\.landing_orders_files: min_age must be below lateness"):
        load(broken, shipped, ENVIRON)


def test_the_written_schema_is_the_one_of_the_shipped_triggers(shipped: Vocabulary) -> None:
    schema = json_schema(shipped)
    if os.environ.get("WATCHER_TEST_WRITE_SCHEMA"):
        WRITTEN_SCHEMA.write_text(f"{json.dumps(schema, indent=2)}\n", encoding="utf-8")
    written = json.loads(WRITTEN_SCHEMA.read_text(encoding="utf-8"))
    assert written == json.loads(json.dumps(schema)), "it is out of date: WATCHER_TEST_WRITE_SCHEMA=1 writes it"


def test_the_schema_of_the_shipped_triggers_accepts_the_example(shipped: Vocabulary) -> None:
    document = YAML(typ="safe", pure=True).load(EXAMPLE.read_text(encoding="utf-8"))
    validator = Draft202012Validator(json_schema(shipped))
    assert [error.message for error in validator.iter_errors(document)] == []
