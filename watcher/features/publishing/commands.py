"""`watcher schema`."""

from __future__ import annotations

import typer

top = typer.Typer()


@top.command()
def schema() -> None:
    """Print the JSON Schema of the configuration. Editors complete from it."""
    from config.features.publishing import WRITTEN_SCHEMA  # noqa: PLC0415  see watcher.cli

    typer.echo(WRITTEN_SCHEMA.read_text(encoding="utf-8"), nl=False)
