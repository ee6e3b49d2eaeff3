"""A reload that fails, for want of its database for instance, leaves the files to be applied."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from config.models import Configuration
from watcher.configuration.foreign_classes import _NoProcesses, load_with_plugins
from watcher.configuration.reloader import Reloader
from watcher.host.metrics import Metrics


def _load(path: Path) -> Configuration:
    return load_with_plugins(path, processes=_NoProcesses())


async def test_files_whose_reload_failed_are_still_stale(tmp_path: Path) -> None:
    def fails(_: object) -> NoReturn:
        raise OSError("the database is away")

    file = tmp_path / "watcher.yaml"
    file.write_text("version: 1\nassets: {a: {}}\n")
    nothing = cast("Any", None)
    reloader = Reloader(
        configuration=_load(file),
        database=nothing,
        lease=timedelta(seconds=30),
        load=_load,
        declare=nothing,
        prepare=fails,
        adopt=nothing,
        announce=nothing,
        health=nothing,
        metrics=Metrics(),
    )
    assert not reloader.is_stale
    file.write_text("version: 1\nassets: {a: {}, b: {}}\n")
    with pytest.raises(OSError, match="away"):
        await reloader.reload("person")
    assert reloader.is_stale, "its watch applies it later"
