"""Manifests in a folder: each is read once, as the version that was listed, and its names stand in its event."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.effort import SEED, effort
from tests.unit.triggers_files.dict_host import DictHost
from triggers.base import JsonValue, StoredPosition, TriggerBatch, TriggerContext
from triggers.errors import ConfigurationError
from triggers.local_folder.new_files import FileNewFiles, FileNewFilesOptions
from triggers.shared.manifests import LARGEST


def trigger(folder: Path, **options: Any) -> FileNewFiles:
    given = {"path": str(folder), "min_age": "0s", "interval": "1ms", "start": "all", "last": ["**/*.list", "**/_DONE"]}
    context = TriggerContext(watcher="w", manifests=["*.list"])
    return FileNewFiles(FileNewFilesOptions.model_validate({**given, **options}), None, context)


def write(path: Path, content: str | bytes = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def manifests(host: DictHost) -> list[Mapping[str, JsonValue]]:
    return [event.payload["manifests"] for event in host.events if "manifests" in event.payload]  # type: ignore[misc]


async def with_a_change(host: DictHost, watched: FileNewFiles, change: Callable[[], object]) -> None:
    """Run two polls, and make a change between the second scan and the reading of what is emitted last."""
    for number in range(2):
        position: StoredPosition | None = host.stored if number == 0 else None
        batches: AsyncGenerator[TriggerBatch, None] = watched.poll(position)
        async with aclosing(batches):
            async for batch in batches:
                if batch.position is not None:
                    host.commit(batch.position, batch.events)
                if number == 1:
                    change()


async def test_the_names_in_a_manifest_stand_in_its_event(tmp_path: Path) -> None:
    host = DictHost()
    write(tmp_path / "day=1/all.list", f"a.csv\nfile://{tmp_path}/day=1/b.csv\n../c.csv\n")
    write(tmp_path / "day=1/_DONE")
    write(tmp_path / "day=1/a.csv")
    watched = trigger(tmp_path, partition={"day": "day={}"})
    await host.run(watched)
    assert [event.payload.get("last") for event in host.events] == [None]
    await host.run(watched, polls=2)
    [_, last] = host.events
    assert (last.partition_key, last.count, last.payload["last"]) == ("1", 2, True)
    assert last.payload["manifests"] == {f"{tmp_path}/day=1/all.list": ["a.csv", "b.csv", f"{tmp_path}/c.csv"]}


async def test_a_manifest_is_read_again_after_a_crash_until_it_is_committed(tmp_path: Path) -> None:
    host = DictHost()
    write(tmp_path / "all.list", "a.csv")
    await host.run(trigger(tmp_path))
    watched = trigger(tmp_path)
    async with aclosing(watched.events(host.stored)) as batches:
        async for batch in batches:
            if batch.events:
                assert "manifests" in batch.events[0].payload
                break  # it is not committed
    assert host.events == []
    await host.run(trigger(tmp_path), polls=4)
    await host.run(trigger(tmp_path), polls=4)
    assert manifests(host) == [{f"{tmp_path}/all.list": ["a.csv"]}]


@pytest.mark.parametrize("identity", ["inode", "path"])
async def test_a_manifest_that_changes_meanwhile_is_read_as_what_it_becomes(tmp_path: Path, identity: str) -> None:
    host = DictHost()
    file = write(tmp_path / "all.list", "a.csv")
    watched = trigger(tmp_path, identity=identity)
    await with_a_change(host, watched, lambda: write(file, "a.csv\nb.csv"))
    assert host.events == []
    await host.run(watched, polls=3)
    assert manifests(host) == [{f"{tmp_path}/all.list": ["a.csv", "b.csv"]}]


@pytest.mark.parametrize("become", ["gone", "folder", "pipe", "no folder"])
async def test_a_manifest_that_is_replaced_by_something_else_is_left_out(tmp_path: Path, become: str) -> None:
    host = DictHost()
    file = write(tmp_path / "sub/all.list", "a.csv")

    def change() -> None:
        file.unlink(missing_ok=True)
        match become:
            case "folder":
                file.mkdir(exist_ok=True)
            case "pipe":
                os.mkfifo(file)
            case "no folder":
                file.parent.rmdir()
                write(tmp_path / "sub")

    await with_a_change(host, trigger(tmp_path), change)
    assert [file for file in host.files if "list" in str(file)] == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "names no file; write []"),
        (b"\xff", "its byte 0 is not UTF-8"),
        (b"[" + b" " * LARGEST, "1,000,000 bytes"),
        (b"a.csv\nsub/\n", "it names 'sub/', which is a folder and no file"),
    ],
)
@pytest.mark.parametrize("on_bad_row", ["stop", "report"])
async def test_what_is_no_manifest_is_rejected_with_its_reason(
    tmp_path: Path, content: bytes, reason: str, on_bad_row: str
) -> None:
    host = DictHost()
    write(tmp_path / "good.list", "[]")
    bad = write(tmp_path / "x/bad.list", content)
    await host.run(trigger(tmp_path, on_bad_row=on_bad_row), polls=3)
    [item] = host.rejected
    assert item.key == "x/bad.list"
    assert item.reason.startswith("it is no manifest: it")
    assert reason in item.reason
    [event] = host.events
    assert event.payload["rejected"] == ["x/bad.list"]
    assert manifests(host) == [{f"{tmp_path}/good.list": []}]
    host.retried = True
    await host.run(trigger(tmp_path, on_bad_row=on_bad_row), polls=3)
    assert (len(host.events), host.rejected) == (1, [item]), "it is as bad as before"
    write(bad, "a.csv")
    await host.run(trigger(tmp_path, on_bad_row=on_bad_row), polls=3)
    assert manifests(host)[1:] == [{f"{tmp_path}/x/bad.list": ["a.csv"]}]
    host.retried = True
    await host.run(trigger(tmp_path, on_bad_row=on_bad_row), polls=3)
    assert (host.rejected, len(host.events)) == ([], 2), "the rejected version is gone"


async def test_a_manifest_that_must_not_be_read_stops_the_watcher(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("the superuser may read everything")
    write(tmp_path / "all.list", "a").chmod(0)
    with pytest.raises(ConfigurationError, match="cannot be read; give this process read permission"):
        await DictHost().run(trigger(tmp_path), polls=3)


async def test_large_manifests_have_batches_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = DictHost()
    names = [f"{number:0100}" for number in range(6_000)]
    for file in "abc":
        write(tmp_path / f"{file}.list", json.dumps(names))
    await host.run(trigger(tmp_path), polls=2)
    assert [len(event.payload["manifests"]) for event in host.events] == [1, 1, 1]  # type: ignore[arg-type]
    assert host.commits == 3, "the first scan, and batches of one and two"
    monkeypatch.setattr("triggers.file_scan.manifests.MOST_AT_ONCE", 2)
    for number in range(5):
        write(tmp_path / f"{number}/_DONE")
    before = host.commits
    await host.run(trigger(tmp_path), polls=2)
    assert host.commits == before + 3


@pytest.mark.parametrize("number", range(effort(6, 300)))
async def test_whatever_is_written_and_killed_each_version_has_one_event_with_its_own_names(
    tmp_path: Path, number: int
) -> None:
    random, host = Random(f"{SEED}/{number}"), DictHost()
    written: dict[Path, list[list[str]]] = {}
    for step in range(random.randint(5, 25)):
        match random.randrange(4):
            case 0 | 1:
                file = tmp_path / f"day={random.randrange(2)}/{random.choice('ab')}.list"
                written.setdefault(file, []).append([f"{step}-{each}.csv" for each in range(random.randint(1, 3))])
                write(file, "\n".join(written[file][-1]))
            case 2:
                write(tmp_path / f"day={random.randrange(2)}/{step}.csv")
            case _:
                await _run_until_killed(host, trigger(tmp_path, mode=random.choice(["strict", "window"])), random)
    await host.run(trigger(tmp_path), polls=3)
    named: dict[str, list[JsonValue]] = {}
    for shown in manifests(host):
        for path, names in shown.items():
            named.setdefault(path, []).append(names)
    for file, contents in written.items():
        events = named.pop(str(file))
        assert events[-1] == contents[-1]
        assert [each for each in contents if each in events] == events, "each at most once, in order"
    assert named == {}
    emitted = [json.dumps(file, sort_keys=True) for file in host.files]
    assert len(emitted) == len({*emitted})


async def _run_until_killed(host: DictHost, watched: FileNewFiles, random: Random) -> None:
    """Run the trigger in a process that dies before it commits some batch."""
    left = random.randint(1, 6)
    async with aclosing(watched.events(host.stored)) as batches:
        async for batch in batches:
            left -= 1
            if left == 0:
                return
            if batch.position is not None:
                host.commit(batch.position, batch.events)
