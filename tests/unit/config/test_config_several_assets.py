"""The option `assets` of a watcher in the configuration: which assets it may name, and what follows for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from config.errors import ConfigurationInvalid
from config.models import Configuration
from config.models.assets import parts_by_asset
from config.reading.loader import load
from tests.features import DECLARATIONS
from watcher.configuration.declarations import declared
from watcher.configuration.sources import hosted
from watcher.configuration.vocabulary import vocabulary

pytestmark = pytest.mark.feature("folder")

TEXT = """
assets:
  inbox:
    watchers: {{drop: {{trigger: file.new_files, path: in, {options}}}}}
  orders: {orders}
  refunds:
jobs:
  load: {{schedule: {schedule}, batch: {batch}, spark: {{application: load.py}}}}
"""
DIVIDED = 'assets: {orders: "orders/**", refunds: "refunds/**"}'


@pytest.fixture
def read(write: Callable[[str], Path]) -> Callable[..., Configuration]:
    def loaded(options: str = DIVIDED, orders: str = "", schedule: str = "orders", batch: str = "{}") -> Configuration:
        text = TEXT.format(options=options, orders=orders, schedule=schedule, batch=batch)
        return load(write(text), vocabulary(), {})

    return loaded


def test_the_assets_are_declared_and_hosted(read: Callable[..., Configuration]) -> None:
    configuration = read()
    [watcher] = declared(configuration, DECLARATIONS).watchers
    assert (watcher.asset, watcher.further_assets) == ("inbox", ("orders", "refunds"))
    host = hosted(configuration, {"inbox": 1, "orders": 2, "refunds": 3})["drop"]
    assert (host.asset_id, host.further_assets) == (1, {"orders": 2, "refunds": 3})


@pytest.mark.parametrize(
    ("assets", "place", "sentence"),
    [
        ('{ordres: "**"}', "assets.ordres", "unknown asset `ordres`; did you mean `orders`?"),
        ('{inbox: "**"}', "assets.inbox", "is the watcher's own asset, which gets what no other asset does; remove it"),
        ('{orders: "[b-a]"}', "assets.orders", "is no valid pattern"),
    ],
)
def test_an_asset_that_could_not_be_meant_is_named(
    read: Callable[..., Configuration], assets: str, place: str, sentence: str
) -> None:
    with pytest.raises(ConfigurationInvalid) as refused:
        read(f"assets: {assets}")
    [problem] = refused.value.problems
    assert problem.path == f"assets.inbox.watchers.drop.{place}"
    assert sentence in str(problem)


PARTS = 'partition: {day: "dt={}"}'


def test_the_assets_have_the_parts_of_the_watchers_partition_keys(read: Callable[..., Configuration]) -> None:
    configuration = read(f"{DIVIDED}, {PARTS}", batch="{mode: per_partition, by: day}")
    assert parts_by_asset(configuration.assets) == dict.fromkeys(("inbox", "orders", "refunds"), ("day",))
    assert {
        each.name: json.loads(each.partition_parts or "") for each in declared(configuration, DECLARATIONS).assets
    } == {name: ["day"] for name in ("inbox", "orders", "refunds")}
    with pytest.raises(ConfigurationInvalid, match="names other parts than the asset orders, which has month"):
        read(f"{DIVIDED}, {PARTS}", orders="{partition: [month]}")


def test_a_marker_of_a_watcher_is_one_of_all_its_assets(read: Callable[..., Configuration]) -> None:
    batch = "{mode: per_partition, complete: {marker: _SUCCESS}}"
    read(f"{DIVIDED}, last: [_SUCCESS]", batch=batch)
    with pytest.raises(ConfigurationInvalid, match="waits for a marker"):
        read("last: [_SUCCESS]", batch=batch)


def test_other_assets_make_another_definition_of_the_same_source(read: Callable[..., Configuration]) -> None:
    def definition(options: str) -> Any:
        return read(options).definitions["drop"]

    assert definition(DIVIDED) != definition("assets: {}") == definition("match: null")
