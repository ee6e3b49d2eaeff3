"""What a watcher of a folder says about one file."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.triggers_files.dict_host import DictHost
from triggers.base import TriggerContext
from triggers.explanations import Explanation
from triggers.local_folder.new_files import FileNewFiles, FileNewFilesOptions
from triggers.s3.explanation import key_of


def trigger(folder: Path, **options: Any) -> FileNewFiles:
    given = {"path": str(folder), "min_age": "0s", "interval": "1ms", **options}
    return FileNewFiles(FileNewFilesOptions.model_validate(given), None, TriggerContext(watcher="files"))


async def said(folder: Path, host: DictHost, item: str, **options: Any) -> Explanation:
    return await trigger(folder, **options).explain(item, host.stored)


async def test_each_file_is_explained_by_its_folder_and_the_position(tmp_path: Path) -> None:
    root, host = tmp_path / "in", DictHost()
    root.mkdir()
    options: Mapping[str, Any] = {"start": "all", "match": "**/*.csv", "min_size": 2}
    for name, content in (("seen.csv", "xx"), ("small.csv", "x"), ("other.txt", "xx"), ("gone.csv", "xx")):
        (root / name).write_text(content)
    await host.run(trigger(root, **options))
    (root / "gone.csv").unlink()
    (root / "late.csv").write_text("xx")

    answers = {
        name: (await said(root, host, item, **options)).state
        for name, item in {
            "seen": "seen.csv",
            "seen by path": str(root / "seen.csv"),
            "seen by url": (root / "seen.csv").as_uri(),
            "small": "small.csv",
            "other": "other.txt",
            "gone": "gone.csv",
            "late": "late.csv",
            "above": str(tmp_path / "seen.csv"),
            "dots": "../seen.csv",
            "url": "s3://in/seen.csv",
        }.items()
    }

    assert answers == {
        "seen": "reported",
        "seen by path": "reported",
        "seen by url": "reported",
        "small": "not_matched",
        "other": "not_matched",
        "gone": "missing",
        "late": "waiting",
        "above": "outside",
        "dots": "outside",
        "url": "outside",
    }
    assert (await said(root, host, "other.txt", **options)).facts["match"] == "**/*.csv"


async def test_the_version_that_is_there_is_named_as_an_event_names_it(tmp_path: Path) -> None:
    host = DictHost()
    (tmp_path / "a b.csv").write_text("x")
    await host.run(trigger(tmp_path, start="all"))

    explained = await said(tmp_path, host, (tmp_path / "a b.csv").as_uri())

    assert [explained.version] == host.files
    assert explained.name == host.files[0]["path"]


async def test_a_young_file_waits_for_min_age_and_an_overwritten_one_for_the_next_scan(tmp_path: Path) -> None:
    host, file = DictHost(), tmp_path / "a"
    file.write_text("x")
    await host.run(trigger(tmp_path, start="all"))
    file.write_text("another")

    assert (await said(tmp_path, host, "a")).state == "waiting"
    young = await said(tmp_path, host, "a", min_age="1h")
    assert (young.state, young.facts["reason"]) == ("waiting", "min_age")


async def test_a_file_older_than_a_start_time_is_before_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    assert (await said(tmp_path, DictHost(), "a", start="2999-01-01T00:00:00Z")).state == "before_start"


async def test_a_link_counts_from_when_it_was_made_as_in_a_listing(tmp_path: Path) -> None:
    host = DictHost()
    (tmp_path / "other").write_text("x")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "other")
    await host.run(trigger(tmp_path / "in", start="all"))

    explained = await said(tmp_path / "in", host, "link")

    assert (explained.state, explained.version) == ("reported", host.files[0])


async def test_random_files_are_explained_as_the_next_scan_treats_them(tmp_path: Path) -> None:
    seed = random.Random(37)
    host, options = DictHost(), {"start": "all", "match": "*.csv", "batch": {"max_files": 3}}
    names = [f"{number}.{seed.choice(['csv', 'txt'])}" for number in range(60)]
    for round_ in range(4):
        for name in seed.sample(names, 20):
            (tmp_path / name).write_text(f"{round_}")
        for path in seed.sample(sorted(tmp_path.iterdir()), 5):
            path.unlink()
        before = {name: await said(tmp_path, host, name, **options) for name in names}
        events = await host.run(trigger(tmp_path, **options))
        reported = {Path(file["path"]).name for event in events for file in event.payload["files"]}  # type: ignore[index,union-attr,call-overload]

        assert {name for name, each in before.items() if each.state == "waiting"} == reported
        assert {name for name, each in before.items() if each.state == "missing"} == {
            name for name in names if name.endswith("csv") and not (tmp_path / name).exists()
        }
        assert all(each.state == "not_matched" for name, each in before.items() if name.endswith("txt"))


@pytest.mark.parametrize(
    ("item", "key"),
    [
        ("s3://landing/orders/a b.csv", "orders/a b.csv"),
        ("s3a://landing/orders/a", "orders/a"),
        ("orders/a", "orders/a"),
        ("s3://other/orders/a", None),
        ("s3://landing/sales/a", None),
        ("https://landing/orders/a", None),
        ("", None),
    ],
)
def test_an_item_means_a_key_by_url_or_as_it_is(item: str, key: str | None) -> None:
    meant = key_of(item, "landing", "orders/")
    assert meant == key if key is not None else isinstance(meant, Explanation) and meant.state == "outside"
