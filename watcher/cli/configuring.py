"""The configuration a command works with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from config.models import Configuration

ConfigOption = Annotated[
    Path,
    typer.Option(
        "--config", "-c", envvar="WATCHER_CONFIG", help="The YAML file, or a folder of them.", show_default=True
    ),
]
DEFAULT_CONFIG = Path("watchers.yaml")


def load_configuration(path: Path, *, with_files: bool = False) -> Configuration:
    """Read and check it, `with_files` also that the jobs' applications are there. Raises `ConfigurationInvalid`."""
    from config.loader import load  # noqa: PLC0415  see watcher.cli
    from watcher.vocabulary import vocabulary  # noqa: PLC0415

    return load(path, vocabulary(), os.environ, with_files=with_files)
