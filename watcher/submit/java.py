"""The machine's Java, as Spark's own scripts will find it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from watcher.submit.base import SubmitError

OLDEST = 17
_REMEDY = f"install Java {OLDEST} or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"


def java_home(environment: Mapping[str, str]) -> Path:
    """The folder of the Java that a program with this environment gets. Raises `SubmitError` when Spark cannot use it."""
    home = environment.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else environment.get("PATH"))
    if found is None:
        where = f"in JAVA_HOME {home}" if home else "on the PATH"
        raise SubmitError(f"Spark needs Java, and none was found {where}: {_REMEDY}")
    folder = Path(found).resolve().parent.parent
    version = java_version(folder)
    if version is not None and version < OLDEST:
        raise SubmitError(f"Spark needs Java {OLDEST} or newer, but {folder} is Java {version}: {_REMEDY}")
    return folder


def java_version(folder: Path) -> int | None:
    """The major version as the installation's `release` file has it; None when it does not say."""
    try:
        release = (folder / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE)
    return int(found[1]) if found else None
