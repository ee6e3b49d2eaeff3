"""Of several versions of a path the newest counts, by the order of events, then of items."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

from store.features.versions import file_versions
from store.features.versions.file_versions import NamedVersion, split, superseded_by, versions_of


def named(event: int, *files: Mapping[str, Any], watcher: str | None = "files", asset: int = 1) -> list[NamedVersion]:
    return [*versions_of(event, asset, watcher, json.dumps({"files": files}))]


def version(name: str, size: int, **more: Any) -> Mapping[str, Any]:
    return {"bucket": "in", "key": name, "size": size, "etag": f"{size}", **more}


def places(versions: Any) -> list[tuple[int, int]]:
    return sorted((each.event_id, each.number) for each in versions)


def test_older_versions_of_a_path_are_superseded() -> None:
    newest, superseded = split(
        [
            *named(1, version("a", 1), version("b", 1), version("a", 2)),
            *named(2, version("c", 1)),
            *named(3, version("a", 3)),
        ]
    )
    assert places(superseded) == [(1, 0), (1, 2)]
    assert {path.name: places(each) for path, each in newest.items()} == {"a": [(3, 0)], "b": [(1, 1)], "c": [(2, 0)]}


def test_a_version_that_is_reported_again_after_a_rewind_is_the_same_version() -> None:
    newest, superseded = split(
        [*named(1, version("a", 1)), *named(2, version("a", 1, last_modified="2026-01-01T00:00:00Z"))]
    )
    assert (places(superseded), [places(each) for each in newest.values()]) == ([], [[(1, 0), (2, 0)]])
    _, superseded = split([*named(1, version("a", 1)), *named(2, version("a", 2)), *named(3, version("a", 1))])
    assert places(superseded) == [(1, 0), (2, 0)]


def test_paths_of_other_watchers_assets_and_buckets_are_other_paths_and_posted_events_have_none() -> None:
    _, superseded = split(
        [
            *named(1, version("a", 1)),
            *named(2, version("a", 2), watcher="others"),
            *named(3, version("a", 3), asset=2),
            *named(4, {**version("a", 4), "bucket": "out"}),
            *named(5, {"path": "a", "size": 5}),
            *named(6, version("a", 6), watcher=None),
        ]
    )
    assert superseded == []


def test_markers_are_no_versions() -> None:
    extra = json.dumps({"files": [version("_SUCCESS", 0)], "last": True})
    assert [*versions_of(1, 1, "files", extra)] == []


def test_what_a_run_has_is_superseded_by_later_events_alone() -> None:
    newest, _ = split([*named(3, version("a", 3), version("b", 3)), *named(4, version("c", 4))])
    newer = [*named(2, version("a", 2)), *named(5, version("b", 5)), *named(6, version("c", 4))]
    assert places(superseded_by(newer, newest)) == [(3, 1)]
    assert {path.name for path in file_versions.named(newest, {"b", "nothing"})} == {"b"}


def test_exactly_the_versions_that_a_file_system_would_still_have_remain() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        written = [(event, rng.choice("abc"), rng.randrange(4)) for event in range(1, 12)]
        newest, superseded = split(
            [each for event, name, size in written for each in named(event, version(name, size))]
        )
        present = {name: size for _, name, size in written}
        kept = {
            each.path.name: {each.content["size"] for each in of_path}
            for path, of_path in newest.items()
            for each in of_path
        }
        assert kept == {name: {size} for name, size in present.items()}
        assert len(superseded) + sum(map(len, newest.values())) == len(written)
