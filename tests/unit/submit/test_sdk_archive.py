from __future__ import annotations

import os
import zipfile
from pathlib import Path
from shutil import copytree

import pytest

from tests.unit.submit.plain import workspace
from watcher.submit.base import SubmitError
from watcher.submit.sdk_archive import SDK, packed, sdk_archive


def test_the_archive_holds_the_package_and_is_made_once(tmp_path: Path) -> None:
    archive = sdk_archive(tmp_path)
    with zipfile.ZipFile(archive) as content:
        assert {"asset_job/__init__.py", "asset_job/storage.py"} <= {*content.namelist()}
        assert content.read("asset_job/__init__.py") == (SDK / "__init__.py").read_bytes()
    made = archive.stat()
    assert sdk_archive(tmp_path) == archive
    assert archive.stat() == made
    assert [*archive.parent.iterdir()] == [archive]


def test_equal_sources_make_equal_archives_in_any_folder(tmp_path: Path) -> None:
    copy = copytree(SDK, tmp_path / "elsewhere" / "asset_job")
    for number, module in enumerate(copy.rglob("*.py")):
        os.utime(module, (number, number))
        module.chmod(0o600)
    assert packed(copy) == packed(SDK)
    (copy / "assets.py").write_text("changed")
    assert packed(copy) != packed(SDK)


def test_a_home_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "sdk").write_text("in the way")
    with pytest.raises(SubmitError, match=r"the job SDK could not be written below .*: .*File exists"):
        workspace(tmp_path).sdk_archive()
