"""A user's package that hides one of this project's stops the start with one sentence, and is never executed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.effort import PATIENCE
from watcher.guard import find_stranger

ROOT = Path(__file__).resolve().parents[3]
AS_CONSOLE_SCRIPT = ["-c", "import sys; sys.path.pop(0); from watcher.guard import main; main()"]
AS_MODULE = ["-m", "watcher"]


def put_module(folder: Path, name: str) -> Path:
    path = folder / f"{name}.py"
    path.write_text(f"open({str(folder / 'executed')!r}, 'w').close()\n")
    return path


def put_package(folder: Path, name: str) -> Path:
    package = folder / name
    package.mkdir()
    put_module(package, "__init__")
    return package


def start(arguments: list[str], *, folder: Path, path: list[Path]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run(
        [sys.executable, *arguments, "--help"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def assert_refused(done: subprocess.CompletedProcess[str], *, stranger: Path) -> None:
    assert done.returncode == 2
    assert done.stdout == ""
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith(f"watcher: '{stranger.stem}' would be imported from {stranger}")
    assert not list(stranger.parent.rglob("executed"))


@pytest.mark.parametrize("name", ["asset_job", "config", "store", "triggers"])
def test_a_module_in_the_working_folder_is_refused(tmp_path: Path, name: str) -> None:
    stranger = put_module(tmp_path, name)
    assert_refused(start(AS_MODULE, folder=tmp_path, path=[ROOT]), stranger=stranger)


@pytest.mark.parametrize("name", ["asset_job", "config", "store", "triggers"])
def test_a_package_on_pythonpath_is_refused(tmp_path: Path, name: str) -> None:
    stranger = put_package(tmp_path, name)
    assert_refused(start(AS_CONSOLE_SCRIPT, folder=ROOT, path=[tmp_path, ROOT]), stranger=stranger)


def test_the_installed_command_does_not_look_into_the_working_folder(tmp_path: Path) -> None:
    pytest.importorskip("watcher.cli")
    put_module(tmp_path, "config")
    done = start(AS_CONSOLE_SCRIPT, folder=tmp_path, path=[ROOT, ROOT / "sdk"])
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage" in done.stdout
    assert not (tmp_path / "executed").exists()


def test_our_own_packages_are_accepted() -> None:
    assert find_stranger(ROOT) is None


def test_an_incomplete_installation_is_named(tmp_path: Path) -> None:
    guard = ROOT / "watcher" / "guard.py"
    code = f"import runpy; print(runpy.run_path({str(guard)!r})['find_stranger'](__import__('pathlib').Path.cwd()))"
    bare = ["-I", "-S", "-c", code]  # without site-packages, where this project is installed
    done = subprocess.run([sys.executable, *bare], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "the package 'config' is missing; install Asset Watcher again\n"
