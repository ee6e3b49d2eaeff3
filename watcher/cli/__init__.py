"""The command line. Commands import what they need when they run, so that `watcher --help` is quick."""

from __future__ import annotations


def main() -> None:
    """The program `watcher`, entered through `watcher.guard`."""
    from watcher.cli.app import app  # noqa: PLC0415  only now is it known that the names are ours

    app(prog_name="watcher")
