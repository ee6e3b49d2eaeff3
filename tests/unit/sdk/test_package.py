"""The SDK is a package of its own: its wheel needs nothing but Python."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any

import pytest

import asset_job
from watcher.submit.sdk_archive import sdk_archive

ROOT = Path(__file__).parents[3]
BUILT = ignore_patterns("__pycache__", "build", "*.egg-info")
JOB = """
import sys

before = {*sys.modules}
from asset_job import run

with run(local="folder") as r:
    with r.asset_store["orders"].transaction() as t:
        t.increment("runs")
    r.outlet_events["orders"].extra = {"files": len(r.triggering_asset_events.files("landing"))}
print(*({name.partition(".")[0] for name in {*sys.modules} - before} - sys.stdlib_module_names))
"""
PACKAGE = Path(asset_job.__file__).parent
MODULES = {path.relative_to(PACKAGE.parent).as_posix() for path in PACKAGE.rglob("*.py")}
DISTRIBUTIONS = "import importlib.metadata as m; print(sorted(d.name for d in m.distributions()))"


def output(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is left in the checkout, by the setuptools of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    copytree(ROOT / "sdk", folder / "sdk", ignore=BUILT)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-index")
    output(*pip, "--no-build-isolation", "--no-deps", "--wheel-dir", ".", "./sdk", cwd=folder)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def clean_python(wheel: Path) -> Path:
    """The Python of an environment in which the wheel was installed, with whatever it requires, and nothing else."""
    environment = wheel.parent / "environment"
    output(sys.executable, "-m", "venv", "--without-pip", environment, cwd=wheel.parent)
    python = environment / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    output(*pip, "install", "--quiet", "--no-index", wheel, cwd=wheel.parent)
    return python


def test_installing_it_brings_no_other_distribution(clean_python: Path, tmp_path: Path) -> None:
    assert output(clean_python, "-I", "-c", DISTRIBUTIONS, cwd=tmp_path) == "['asset-job']"


def test_a_job_runs_locally_with_the_standard_library_only(clean_python: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    events = {"landing": [{"extra": {"files": [{"path": "/a.json"}, {"path": "/b.json"}]}}]}
    (tmp_path / "folder" / "events.json").write_text(json.dumps(events))
    (tmp_path / "job.py").write_text(JOB)
    assert output(clean_python, "-I", "-W", "error", "job.py", cwd=tmp_path) == "asset_job"
    assert content(tmp_path, "finish.json") == {
        "state": "success",
        "outlet_events": [{"asset": "orders", "extra": {"files": 2}}],
        "message": "",
    }
    assert content(tmp_path, "asset_store.json")["orders"]["runs"]["value"] == 1


def content(folder: Path, name: str) -> Any:
    return json.loads((folder / "folder" / name).read_text())


def test_the_wheel_holds_all_modules_and_the_mark_of_typed_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == MODULES | {"asset_job/py.typed"}


def test_drivers_get_the_same_modules_and_nothing_else(tmp_path: Path) -> None:
    with zipfile.ZipFile(sdk_archive(tmp_path)) as archive:
        assert {*archive.namelist()} == MODULES


def test_it_requires_the_applications_python_and_nothing_else() -> None:
    application, sdk = (
        tomllib.loads((folder / "pyproject.toml").read_text())["project"] for folder in (ROOT, ROOT / "sdk")
    )
    assert sdk["requires-python"] == application["requires-python"]
    assert sdk["dependencies"] == []
