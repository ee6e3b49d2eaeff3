"""`watcher check` and `watcher schema`."""

from __future__ import annotations

import json
from dataclasses import asdict
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import typer

from config.errors import ConfigurationInvalid
from store.errors import BackendUnusable
from watcher.cli.commands import DEFAULT_CONFIG, Columns, ConfigOption, JsonOption, Show, load_configuration, table
from watcher.cli.failures import Exit, Failure

if TYPE_CHECKING:
    from config.errors import Problem
    from config.models import Configuration

COLUMNS: Columns = {
    "of": lambda finding: finding["watcher"] or f"job {finding['job']}",
    **{name: itemgetter(name) for name in ("check", "level", "message", "remedy")},
}


def check(
    config: ConfigOption = DEFAULT_CONFIG,
    connect: Annotated[
        bool, typer.Option("--connect", help="Reach every source and judge it, and look for what runs would miss.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check the configuration: exit code 2 if it is wrong; with --connect also the sources: 3 if one is."""
    show = Show(as_json=as_json)
    try:
        configuration = load_configuration(config, with_files=True)
    except ConfigurationInvalid as error:
        if not as_json:
            raise
        typer.echo(json.dumps([_problem(problem, "error") for problem in error.problems]))
        raise typer.Exit(Exit.USAGE) from None
    _check_store(configuration, as_json=as_json)
    if connect:
        _check_sources(configuration, show)
        return
    warnings = [_problem(problem, "warning") for problem in configuration.warnings]
    show(warnings, lambda: "\n".join([*map(str, configuration.warnings), _summary(configuration)]))


def _check_store(configuration: Configuration, *, as_json: bool) -> None:
    from watcher.app import check_store  # noqa: PLC0415  see watcher.cli

    try:
        check_store(configuration.settings)
    except BackendUnusable as error:
        if not as_json:
            raise Failure(str(error), Exit.USAGE) from None
        typer.echo(json.dumps([{"level": "error", "path": "settings.store.backend", "message": str(error)}]))
        raise typer.Exit(Exit.USAGE) from None


def schema() -> None:
    """Print the JSON Schema of the configuration, from which editors complete."""
    from config.json_schema import json_schema  # noqa: PLC0415  see watcher.cli
    from watcher.vocabulary import vocabulary  # noqa: PLC0415

    typer.echo(json.dumps(json_schema(vocabulary()), indent=2))


def _problem(problem: Problem, level: str) -> dict[str, Any]:
    return {"level": level, **asdict(problem)}


def _summary(configuration: Configuration) -> str:
    parts = {
        "asset": len(configuration.assets),
        "watcher": len(configuration.watchers),
        "job": len(configuration.jobs),
    }
    counted = (f"{count} {word}{'' if count == 1 else 's'}" for word, count in parts.items())
    return f"{configuration.file} is right: {', '.join(counted)}; --connect also looks at the sources"


def _check_sources(configuration: Configuration, show: Show) -> None:
    from watcher.source_checks import all_findings  # noqa: PLC0415  see watcher.cli

    findings = anyio.run(all_findings, configuration)
    show(findings, lambda: table(findings, COLUMNS))
    if any(finding["level"] == "error" for finding in findings):
        raise typer.Exit(Exit.CHECK_FAILED)
