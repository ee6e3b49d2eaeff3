"""The JSON Schema is what editors check against: it must accept everything that `load` accepts."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from config.features.publishing.json_schema import json_schema
from config.models import Configuration
from config.vocabulary import Vocabulary

GOOD = """\
settings:
  api: {port: "${PORT:-1}", host: localhost}
  logs: {json: false, level: "${LEVEL:-debug}"}
  triggerer: {grace: 5s, heartbeat: "${HEARTBEAT:-1s}"}
connections:
  pond: {type: lake, region: here}
  shop: {type: shop, dsn: "${DSN:-x}"}
assets:
  orders:
    uri: s3://landing/orders/
    expect_every: 1h
    extra: {any: [thing]}
    watchers:
      w: {trigger: lake.files, connection: pond, interval: 5s, start: 7, batch: {max_files: "${MOST:-5}"}}
      tick: {trigger: clock}
  customers:
aliases:
  daily:
  weekly: {group: shop}
jobs:
  all: {spark: {application: a.py, conf: {x: 1, y: true}, args: [1, a], env: {N: 1}}, schedule: [orders, customers]}
  tree:
    spark: {application: a.py}
    schedule: {all: [orders, {any: [customers, [orders], {alias: daily}]}], or_cron: "@daily", timezone: UTC}
    batch: {mode: coalesce, debounce: 1s}
    inlets: [orders, {alias: daily}]
    outlets: []
    timeout: null
  time: {spark: {application: builtin:ingest, options: {target: t, dedupe_key: id}}, schedule: {cron: "@daily"}, outlets: [customers]}
  name: {spark: {application: a.py}, schedule: orders}
  alias: {spark: {application: a.py}, schedule: {alias: daily}}
  hand: {spark: {application: a.py}, schedule: null}
"""


@pytest.fixture(scope="module")
def validator(vocabulary: Vocabulary) -> Draft202012Validator:
    schema = json_schema(vocabulary)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(json.loads(json.dumps(schema)))


def _document(text: str) -> object:
    return YAML(typ="safe", pure=True).load(f"version: 1\n{text}")


def test_it_accepts_what_loads(load_text: Callable[..., Configuration], validator: Draft202012Validator) -> None:
    load_text(GOOD)
    assert [error.message for error in validator.iter_errors(_document(GOOD))] == []


@pytest.mark.parametrize("section", ["settings", "connections", "assets", "aliases", "jobs"])
def test_it_accepts_empty_sections(
    load_text: Callable[..., Configuration], validator: Draft202012Validator, section: str
) -> None:
    load_text(f"{section}:\n")
    assert validator.is_valid(_document(f"{section}:\n"))


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("version: 1\nsettings", "version: 1\nsettigns"),
        ("port:", "prt:"),
        ('"${PORT:-1}"', "high"),
        ("json: false", "json: 3"),
        ("grace: 5s", "grace: 5"),
        ("type: lake", "type: s3"),
        ("region:", "regin:"),
        ("interval: 5s", "intervall: 5s"),
        ("interval: 5s", "interval: 5"),
        ('max_files: "${MOST:-5}"', "max_files: 0"),
        ("trigger: clock", "trigger: clock, interval: 5s"),
        ("trigger: clock", "connection: pond"),
        ("{group: shop}", "{grup: shop}"),
        ("schedule: [orders, customers]", "schedule: []"),
        ("{any: [customers", "{some: [customers"),
        ('cron: "@daily"}', 'cron: "@daily", or_cron: "@daily"}'),
        ("target: t", "targt: t"),
        ("mode: coalesce", "mode: all"),
        ("  time:", "  time and again:"),
        ("inlets: [orders, {alias: daily}]", "inlets: orders"),
    ],
)
def test_it_refuses_what_does_not_load(
    problems: Callable[..., list[str]], validator: Draft202012Validator, good: str, bad: str
) -> None:
    whole = f"version: 1\n{GOOD}"
    broken = whole.replace(good, bad, 1)
    assert broken != whole
    assert not validator.is_valid(YAML(typ="safe", pure=True).load(broken))
    assert problems(broken.removeprefix("version: 1\n"))


def test_it_completes_the_options_of_each_trigger(vocabulary: Vocabulary) -> None:
    schema = json_schema(vocabulary)
    watcher = schema["$defs"]["AssetConfig"]["properties"]["watchers"]["additionalProperties"]
    choices = {choice["if"]["properties"]["trigger"]["const"]: choice["then"]["$ref"] for choice in watcher["allOf"]}
    assert choices.keys() == vocabulary.triggers.keys()
    files = schema["$defs"][choices["lake.files"].rpartition("/")[2]]
    own = {
        "trigger",
        "connection",
        "isolation",
        "pause_after_failures",
        "bucket",
        "prefix",
        "interval",
        "start",
        "batch",
    }
    reserved = {key for key, schema in files["properties"].items() if schema.get("description") == "Not built."}
    assert files["properties"].keys() - reserved == own


def test_it_leaves_the_options_of_other_triggers_open(validator: Draft202012Validator) -> None:
    assert validator.is_valid(_document("assets: {a: {watchers: {w: {trigger: mine.Trigger, anything: 1}}}}"))


def test_each_default_is_one_that_could_be_written(vocabulary: Vocabulary) -> None:
    """An editor that completes a key writes its default; durations among them."""
    schema = json_schema(vocabulary)
    defaults = [
        (definition, name, written)
        for definition, body in schema["$defs"].items()
        for name, written in body.get("properties", {}).items()
        if written.get("default") is not None
    ]
    assert {"10s", "5s"} <= {str(written["default"]) for _, _, written in defaults}
    for definition, name, written in defaults:
        checker = Draft202012Validator({**written, "$defs": schema["$defs"]})
        assert checker.is_valid(written["default"]), (definition, name, written["default"])


def test_what_the_uri_implies_need_not_be_written(validator: Draft202012Validator) -> None:
    watched = "assets: {orders: {uri: s3://landing/orders/, watchers: {w: {trigger: lake.files, connection: pond}}}}"
    assert validator.is_valid(_document(watched))
