"""The program with all its commands, as tests and the documentation need it."""

from __future__ import annotations

from watcher.cli.program import program

app = program()
