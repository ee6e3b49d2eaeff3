"""Features of other distributions, as the tests install them: a module, and the entry point that names it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.pages import ROOT

EXAMPLE = ROOT / "examples" / "feature"


def add_feature(folder: Path, name: str, source: str, *, module: str = "") -> None:
    """Install a feature into a folder of the import path: its module, and its metadata."""
    module = module or f"feature_{name}"
    (folder / f"{module}.py").write_text(f"from watcher.feature import Feature, FeatureService\n\n{source}\n")
    add_entry_point(folder, name, module)


def add_entry_point(folder: Path, name: str, module: str) -> None:
    """Install the metadata alone of a feature whose module is on the import path."""
    metadata = folder / f"{module}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[asset_watcher.features]\n{name} = {module}:FEATURE\n")


def install_example(folder: Path) -> Path:
    """Install examples/feature as its users do, but into a folder. Return what PYTHONPATH must name.

    It is built from a copy, so that nothing is left in the checkout, by the setuptools of this environment.
    """
    source, target = folder / "source", folder / "installed"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info", ".watcher"))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index")
    words = (*pip, "--no-deps", "--no-build-isolation", "--target", target, source)
    subprocess.run(words, check=True, capture_output=True, env={**os.environ, "PIP_ROOT_USER_ACTION": "ignore"})
    return target
