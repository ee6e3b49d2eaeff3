"""The program's entry: refuses to start when another package hides one of ours.

`config`, `store`, `triggers` and `watcher` are generic names. Python imports the first it meets, and PYTHONPATH and
(with `python -m`) the working folder come before our installation. Nothing of ours but this file, which needs the
standard library only, is imported before the names are proven. What this cannot see: a `watcher` that hides this very
file; then Python itself stops with ModuleNotFoundError.
"""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

PACKAGES: Final = ("config", "store", "triggers", "watcher", "asset_job")
EXIT_CODE: Final = 2


def main() -> None:
    """Run the command line, or leave with one sentence on stderr and exit code 2."""
    complaint = find_stranger(Path(__file__).resolve().parent.parent)
    if complaint is not None:
        sys.stderr.write(f"watcher: {complaint}\n")
        raise SystemExit(EXIT_CODE)
    importlib.import_module("watcher.cli").main()


def find_stranger(home: Path) -> str | None:
    """Why the first of our names that would not be imported from the folder `home` is wrong, and what to do about it."""
    for name in PACKAGES:
        location = _location(name)
        if location is None:
            return f"the package '{name}' is missing; install Asset Watcher again"
        if location not in {home / name, home / "sdk" / name}:
            return (
                f"'{name}' would be imported from {location}, which hides a package of the same name in Asset Watcher; "
                f"take {location.parent} off PYTHONPATH, or start from another folder"
            )
    return None


def _location(name: str) -> Path | None:
    """The folder of a package, or the file of a module, that `import name` would use; nothing is executed."""
    spec = find_spec(name)
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))).resolve()
    return Path(spec.origin).resolve() if spec.origin else None
