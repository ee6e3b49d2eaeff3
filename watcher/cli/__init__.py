"""The command line. Commands import what they need when they run, so that `watcher --help` is quick."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the program `watcher`. Called by `watcher.guard`."""
    from watcher.host.lean_imports import import_leanly  # noqa: PLC0415  only now is it known that the names are ours
    from watcher.host.machine import search_rarely_for_garbage  # noqa: PLC0415

    search_rarely_for_garbage()
    import_leanly()
    from watcher.cli.program import program  # noqa: PLC0415

    program(sys.argv[1:])(prog_name="watcher")
