"""The archive of the job SDK: the one file that travels with every job."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkstemp


def _folder_of(package: str) -> Path:
    """The folder of an installed package, found without importing it. Raises `ModuleNotFoundError`."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"the package `{package}` is missing; install Asset Watcher again", name=package)
    return Path(spec.origin).parent


SDK = _folder_of("asset_job")
"""The folder of the job SDK's sources in this installation."""
INGEST_PROGRAM = Path(__file__).with_name("builtin") / "ingest.py"
"""The application of `builtin:ingest`."""

_MADE_AT = (1980, 1, 1, 0, 0, 0)


def sdk_archive(home: Path) -> Path:
    """Return the SDK's zip in the home, made on first use.

    Its name holds a digest of its content, and the file never changes: a job that keeps running while the daemon is
    upgraded keeps importing from its own archive.
    """
    content = packed(SDK)
    path = home / "sdk" / f"asset_job-{hashlib.sha256(content).hexdigest()[:16]}.zip"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_whole(path, content)
    return path


def packed(package: Path) -> bytes:
    """Return the package's sources as a zip: equal sources give equal bytes, whoever packs them, where and when."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for module in sorted(package.rglob("*.py")):
            name = module.relative_to(package.parent).as_posix()
            archive.writestr(zipfile.ZipInfo(name, _MADE_AT), module.read_bytes())
    return content.getvalue()


def _write_whole(path: Path, content: bytes) -> None:
    """Write a temporary file and rename it: several jobs may start at once, each with a file of its own until then."""
    descriptor, unfinished = mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(unfinished).rename(path)
    except OSError:
        Path(unfinished).unlink(missing_ok=True)
        raise
