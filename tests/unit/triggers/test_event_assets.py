"""Items are divided among assets and partition keys: each once, in the order that events have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.unit.triggers_files.dict_host import DictHost
from triggers.base import TriggerContext
from triggers.event_assets import EventTarget, divided
from triggers.local_folder.new_files import FileNewFiles, FileNewFilesOptions
from triggers.partition_keys import KeyedItems
from triggers.postgres.options import NewRowsOptions

ASSETS = ("orders", "refunds")
TARGETS = st.builds(EventTarget, st.sampled_from((*ASSETS, None)), st.sampled_from(("a", "b", None)))


@given(st.lists(TARGETS), st.booleans())
def test_each_item_is_in_the_event_of_its_target_and_events_have_their_order(
    targets: list[EventTarget], is_partitioned: bool
) -> None:
    if not is_partitioned:
        targets = [target._replace(key=None) for target in targets]
    keys = KeyedItems(what="item", remedy="") if is_partitioned else None
    groups = [*divided([(target, n) for n, target in enumerate(targets)], ASSETS, keys, str)]
    order = (*ASSETS, None)
    places = [(order.index(target.asset), target.key is None, target.key or "") for target, _ in groups]
    assert places == sorted(set(places))
    assert all([targets[n] for n in numbers] == [target] * len(numbers) for target, numbers in groups)
    assert all(numbers == sorted(numbers) for _, numbers in groups)
    assert sorted(n for _, numbers in groups for n in numbers) == [*range(len(targets))]


def watched(folder: Path, **more: Any) -> FileNewFiles:
    options = {"path": str(folder), "start": "all", "min_age": "0s", **more}
    return FileNewFiles(FileNewFilesOptions.model_validate(options), None, TriggerContext(watcher="w"))


async def test_a_file_goes_to_the_first_asset_whose_pattern_matches_and_the_rest_to_the_watchers_own(
    tmp_path: Path,
) -> None:
    for name in ("b.csv", "orders/dt=1/a.csv", "orders/special/c.csv", "x/refunds.csv", "orders/dt=2/d.csv"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    assets = {"special": "**/special/*", "orders": "orders/**", "refunds": "**/refunds.csv"}
    host = DictHost()
    await host.run(watched(tmp_path, assets=assets, partition="dt={dt}"))
    told: list[Any] = [(event.asset, event.partition_key, event.payload["files"]) for event in host.events]
    assert [(asset, key, [Path(file["path"]).name for file in files]) for asset, key, files in told] == [
        ("special", None, ["c.csv"]),
        ("orders", "1", ["a.csv"]),
        ("orders", "2", ["d.csv"]),
        ("refunds", None, ["refunds.csv"]),
        (None, None, ["b.csv"]),
    ]


async def test_files_that_no_event_can_name_stand_in_an_event_of_the_watchers_own_asset(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    for number in range(3):
        (tmp_path / "orders" / f"{number}.csv").write_text("x")
    (tmp_path / "orders" / "a\udcff.csv").write_text("x")
    host = DictHost()
    await host.run(watched(tmp_path, assets={"orders": "orders/**"}, on_bad_row="report"))
    assert [(event.asset, event.count, "rejected" in event.payload) for event in host.events] == [
        ("orders", 3, False),
        (None, 0, True),
    ]


def test_the_assets_are_no_part_of_the_source(tmp_path: Path) -> None:
    plain, divided_ = watched(tmp_path), watched(tmp_path, assets={"orders": "orders/**"})
    assert plain.source_identity() == divided_.source_identity()


def rows(**assets: Any) -> NewRowsOptions:
    return NewRowsOptions.model_validate({"table": "public.t", "assets": assets})


def test_a_row_goes_to_the_asset_that_lists_its_value() -> None:
    options = rows(column="kind", orders="order", refunds=["refund", "return"])
    values = ("order", "refund", "return", "other", None, "")
    assert [options.target_of([value]).asset for value in values] == ["orders", "refunds", "refunds", None, None, None]
    assert options.further_assets == ["orders", "refunds"]
    assert options.dividing_columns == ["kind"]
    assert json.loads(options.model_dump_json())["assets"] == {
        "column": "kind",
        "orders": "order",
        "refunds": ["refund", "return"],
    }


@pytest.mark.parametrize(
    "assets",
    [
        {},
        {"column": "kind"},
        {"orders": "order"},
        {"column": ["kind"], "orders": "order"},
        {"column": "kind", "orders": []},
        {"column": "kind", "orders": "x" * 251},
        {"column": "kind", "orders": "order", "refunds": ["refund", "order"]},
        {"column": "", "orders": "order"},
    ],
)
def test_assets_of_rows_that_could_not_be_meant_are_refused(assets: Any) -> None:
    with pytest.raises(ValidationError):
        rows(**assets)


@pytest.mark.parametrize("assets", [{"orders": ""}, {"orders": "[b-a]"}, ["orders/**"]])
def test_patterns_that_could_not_be_meant_are_refused(assets: Any) -> None:
    with pytest.raises(ValidationError):
        FileNewFilesOptions.model_validate({"path": "/in", "assets": assets})
