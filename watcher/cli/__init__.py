"""The command line. Commands import what they need when they run, so that `watcher --help` is quick."""

from __future__ import annotations

import sys


def main() -> None:
    """The program `watcher`, entered through `watcher.guard`."""
    # httpx imports its own command line where it can, with click and pygments: a fifth of what `watcher status` takes.
    sys.modules["httpx._main"] = None  # type: ignore[assignment]  # how Python says that a module is not to be imported
    from watcher.machine import search_rarely_for_garbage  # noqa: PLC0415  only now is it known that the names are ours

    search_rarely_for_garbage()
    from watcher.cli.app import app  # noqa: PLC0415

    app(prog_name="watcher")
