"""The files that a configuration is read from, and how to see that they have changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from config.errors import ConfigurationInvalid

Stamp: TypeAlias = tuple[int, int, int, int] | None
"""The identity of the file at a path, links followed, and of its content (device, inode, mtime in ns, size); None: no file."""
Stamps: TypeAlias = Mapping[Path, Stamp]


def yaml_files(path: Path) -> list[Path]:
    """The file itself, or the YAML files of a folder. Raises `ConfigurationInvalid` if the folder has none."""
    try:
        if not path.is_dir():
            return [path]
        files = sorted(
            file for file in path.iterdir() if file.suffix in {".yaml", ".yml"} and not file.name.startswith(".")
        )
    except OSError as error:
        raise ConfigurationInvalid.in_file(path, f"cannot be read ({error.strerror}); check its permissions") from None
    if not files:
        raise ConfigurationInvalid.in_file(
            path, "the folder holds no *.yaml file; add one, or name another with --config or WATCHER_CONFIG"
        )
    return files


def folder_of(path: Path) -> Path:
    """The folder, absolute, where relative paths in the configuration at `path` start."""
    return (path if path.is_dir() else path.parent).absolute()


def stamps(path: Path, secrets: Iterable[Path]) -> Stamps:
    """The stamps of the configuration's YAML files and of the files that hold its secrets. Reads no content."""
    try:
        files = yaml_files(path)
    except ConfigurationInvalid:
        files = [path]
    return {file.absolute(): stamp(file) for file in (*files, *secrets)}


def stamp(file: Path) -> Stamp:
    try:
        status = file.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)


def folders(path: Path, secrets: Iterable[Path]) -> frozenset[Path]:
    """The folders in which something happens when one of the files is written, replaced, or reached by another link.

    A link counts with the folder where it stands and the folder of its target: a ConfigMap is updated by exchanging a link
    that stands beside the files.
    """
    places = {path.absolute().parent, path.resolve().parent}
    if path.is_dir():
        places |= {path.absolute(), path.resolve()}
    for secret in secrets:
        places |= {secret.absolute().parent, secret.resolve().parent}
    return frozenset(place for place in places if place.is_dir())
