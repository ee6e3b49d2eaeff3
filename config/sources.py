"""The files that a configuration was read from, and how to see that they are not what they were."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from config.document import yaml_files
from config.errors import ConfigurationInvalid

Stamp: TypeAlias = tuple[int, int, int, int] | None
"""Which file stands at a path, links followed, and which edition of it; None where there is none."""
Stamps: TypeAlias = Mapping[Path, Stamp]


def stamps(path: Path, secrets: Iterable[Path]) -> Stamps:
    """Of the configuration's YAML files as they are now, and of the files with its secrets. Reads no content."""
    try:
        files = yaml_files(path)
    except ConfigurationInvalid:
        files = [path]
    return {file.absolute(): stamp(file) for file in (*files, *secrets)}


def stamp(file: Path) -> Stamp:
    try:
        seen = file.stat()
    except OSError:
        return None
    return (seen.st_dev, seen.st_ino, seen.st_mtime_ns, seen.st_size)


def folders(path: Path, secrets: Iterable[Path]) -> frozenset[Path]:
    """Where something happens when one of the files is written, renamed over, or reached by another link.

    A link is watched where it stands and where it leads: a ConfigMap swaps one that stands beside the files.
    """
    places = {path.absolute().parent, path.resolve().parent}
    if path.is_dir():
        places |= {path.absolute(), path.resolve()}
    for secret in secrets:
        places |= {secret.absolute().parent, secret.resolve().parent}
    return frozenset(place for place in places if place.is_dir())
