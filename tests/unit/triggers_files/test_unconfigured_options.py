"""What is not configured is not on the way of a new file: no function of an option is called without it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import anyio
import pytest

from triggers import event_assets
from triggers.base import TriggerContext
from triggers.file_scan import manifests, partitions
from triggers.file_scan.options import FileOptions
from triggers.file_scan.partitions import FolderKeys
from triggers.file_scan.questions import cleaning
from triggers.file_scan.rules import copies
from triggers.file_scan.rules.copies import Copies
from triggers.file_scan.rules.waiting import EmittedLast, MinAge, StopAtFault
from triggers.file_scan.state.handled import HandledVersions
from triggers.local_folder.new_files import FileNewFiles, FileNewFilesOptions

BARE: Final[Mapping[str, Any]] = {"start": "all", "min_age": "0s", "on_copied": "report", "on_bad_row": "report"}
OPTIONS: Final[Mapping[str, tuple[Any, CodeType]]] = {
    "assets": ({"orders": "*.csv"}, FileOptions.asset_of.__code__),
    "clean_source": ({"delete": True}, HandledVersions.drop.__code__),
    "last": (["_SUCCESS"], EmittedLast.__call__.__code__),
    "min_age": ("1ms", MinAge.__call__.__code__),
    "on_bad_row": ("stop", StopAtFault.__call__.__code__),
    "on_copied": ("stop", Copies.__call__.__code__),
    "partition": ("dt={dt}", FolderKeys.key_of.__code__),
}
"""A value for each option, and what it makes the watcher call for a new file."""
MODULES: Final[Mapping[str, Collection[str]]] = {
    event_assets.__file__: ("assets", "partition"),
    manifests.__file__: ("last",),
    copies.__file__: ("on_copied",),
    partitions.__file__: ("partition",),
    cleaning.__file__: (),
}
"""Modules that serve some of the options alone."""


@contextmanager
def calls() -> Iterator[set[CodeType]]:
    """Collect the code of all functions that the block calls in this thread."""
    called = set[CodeType]()

    def note(frame: FrameType, event: str, _arg: object) -> None:
        if event == "call":
            called.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(before)


async def called_for_a_new_file(folder: Path, options: Mapping[str, Any]) -> set[CodeType]:
    made = FileNewFilesOptions.model_validate({"path": str(folder), **BARE, **options})
    trigger = FileNewFiles(made, None, TriggerContext(watcher="w"))

    async def poll() -> int:
        return sum([len(batch.events) async for batch in trigger.poll(None)])

    (folder / "a.csv").write_text("1")
    await anyio.sleep(0.05)  # the file's clock is coarse, and one option waits for its age
    assert await poll() == 1
    (folder / "b.csv").write_text("2")
    await anyio.sleep(0.05)
    with calls() as called:
        assert await poll() == 1
    return called


@pytest.mark.parametrize("configured", [None, *OPTIONS])
async def test_an_option_is_asked_about_a_new_file_iff_it_is_configured(tmp_path: Path, configured: str | None) -> None:
    options = {} if configured is None else {configured: OPTIONS[configured][0]}
    called = await called_for_a_new_file(tmp_path, options)
    assert {option for option, (_, code) in OPTIONS.items() if code in called} == options.keys()
    files = {code.co_filename for code in called}
    assert [module for module, mine in MODULES.items() if module in files and configured not in mine] == []
