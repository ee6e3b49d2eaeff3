"""The partition key of a file is in the names of its folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.triggers_files.dict_host import DictHost
from triggers.base import TriggerContext
from triggers.file_scan.partitions import FolderKeys
from triggers.local_folder.new_files import FileNewFiles, FileNewFilesOptions
from triggers.s3.new_files import S3NewFilesOptions

NAMED = {"day": "dt={}", "region": "region={}"}


@pytest.mark.parametrize(
    ("partition", "name", "key"),
    [
        ("dt={dt}", "dt=2026-11-20/a.csv", "2026-11-20"),
        ("dt={dt}", "in/dt=2026-11-20/late/a.csv", "2026-11-20"),
        ("dt={dt}", "dt=1/dt=2/a.csv", "1"),
        ("dt={dt}", "dt=2026-11-20", None),  # it is the file's own name, and no folder's
        ("dt={dt}", "xdt=1/a.csv", None),
        ("dt={dt}", "dt=/a.csv", None),
        ("dt={dt}", "dt=  /a.csv", None),
        ("dt={dt}", "a.csv", None),
        ("{}", "2026/a.csv", "2026"),
        ("y={y}/m={m}", "y=2026/m=11/a.csv", "2026|11"),
        ("y={y}/m={m}", "y=2026/x/m=11/a.csv", None),
        ("{y}-{m}", "2026-11/a.csv", "2026|11"),
        ("dt={dt}", "dt=a|b\\c/a.csv", "a|b\\c"),  # the short form is unescaped
        (".+{}", ".+x/a.csv", "x"),
        (".+{}", "abx/a.csv", None),
        (NAMED, "dt=1/region=eu/a.csv", "1|eu"),
        (NAMED, "region=eu/dt=1/a.csv", "1|eu"),
        (NAMED, "region=eu/a.csv", "|eu"),
        (NAMED, "dt=/region=eu/a.csv", "|eu"),
        (NAMED, "dt= /region=eu/a.csv", "|eu"),
        (NAMED, "dt=1/a.csv", "1|"),
        (NAMED, "dt=/region=/a.csv", None),
        (NAMED, "a.csv", None),
        (NAMED, "dt=a|b/region=c\\d/a.csv", "a\\|b|c\\\\d"),
        ("dt={dt}", f"dt={'x' * 250}/a.csv", "x" * 250),
        ("dt={dt}", f"dt={'x' * 251}/a.csv", None),
    ],
)
def test_a_key_is_what_the_template_finds(partition: Any, name: str, key: str | None) -> None:
    assert FolderKeys(partition=partition).key_of(name) == key


@pytest.mark.parametrize(
    "partition", ["", "dt", "dt={dt", "dt=}", "/dt={}", "dt={}/", "a//{}", {}, {"day": "dt"}, {"day": "{}-{}"}]
)
def test_a_template_that_can_give_no_key_is_refused(partition: Any) -> None:
    with pytest.raises(ValidationError):
        S3NewFilesOptions.model_validate({"bucket": "lake", "partition": partition})


async def test_a_batch_has_an_event_for_each_key(tmp_path: Path) -> None:
    for name in ("dt=2/b.csv", "dt=1/c.csv", "none.csv", "dt=2/a.csv"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(name)
    options = {"path": str(tmp_path), "start": "all", "min_age": "0s", "partition": "dt={dt}"}
    trigger = FileNewFiles(FileNewFilesOptions.model_validate(options), None, TriggerContext(watcher="w"))
    host = DictHost()
    await host.run(trigger, polls=1)
    paths = [[Path(file["path"]).name for file in event.payload["files"]] for event in host.events]  # type: ignore[union-attr,index,call-overload,arg-type]
    assert [event.partition_key for event in host.events] == ["1", "2", None]
    assert paths == [["c.csv"], ["a.csv", "b.csv"], ["none.csv"]]
    [finding] = trigger.findings
    assert finding.message == "1 file has no partition key; the first: none.csv"


def test_the_partition_is_no_part_of_the_source() -> None:
    def identity(**more: Any) -> Any:
        options = FileNewFilesOptions.model_validate({"path": "/in", **more})
        return FileNewFiles(options, None, TriggerContext(watcher="w")).source_identity()

    assert identity(partition="dt={}") == identity()
