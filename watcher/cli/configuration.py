"""`watcher run`, `check` and `schema`, which begin with a configuration; and `demo`, which brings its own."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.util import find_spec
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio
import typer

from config.errors import ConfigurationInvalid
from store.errors import BackendUnusable
from watcher.cli.commands import DEFAULT_CONFIG, Columns, ConfigOption, JsonOption, Show, load_configuration, table
from watcher.cli.failures import Exit, Failure

if TYPE_CHECKING:
    from config.errors import Problem
    from config.models import Configuration

ROLES = ("triggerer", "scheduler", "api")
COLUMNS: Columns = {
    "of": lambda finding: finding["watcher"] or f"job {finding['job']}",
    **{name: itemgetter(name) for name in ("check", "level", "message", "remedy")},
}


def run(
    config: ConfigOption = DEFAULT_CONFIG,
    roles: Annotated[str, typer.Option(help="What this process does, separated by commas.")] = ",".join(ROLES),
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Bring the database's schema to this program's first.")
    ] = False,
    cancel_jobs: Annotated[
        bool, typer.Option("--cancel-jobs", help="Stop the Spark jobs together with the daemon.")
    ] = False,
) -> None:
    """Run the daemon until SIGTERM or Ctrl-C."""
    chosen = frozenset(role.strip() for role in roles.split(","))
    if unknown := chosen - set(ROLES):
        raise Failure(f"unknown role {min(unknown)!r}; use some of {', '.join(ROLES)}", Exit.USAGE)
    from watcher.isolation.fork_server import ForkServer  # noqa: PLC0415  see watcher.cli

    with ForkServer() as fork_server:
        configuration = load_configuration(config, fork_server=fork_server)
        from watcher import app  # noqa: PLC0415

        options = app.RunOptions(roles=chosen, upgrade=upgrade, cancel_jobs=cancel_jobs)
        uvloop = {"use_uvloop": find_spec("uvloop") is not None}
        anyio.run(app.run, configuration, options, fork_server, backend_options=uvloop)


def demo(
    as_json: JsonOption = False,
    keep: Annotated[bool, typer.Option("--keep", help="Stay up afterwards, until Ctrl-C.")] = False,
    database: Annotated[
        Literal["sqlite", "postgresql"], typer.Option(help="Where the daemon keeps its metadata.")
    ] = "postgresql",
) -> None:
    """Watch it work: PostgreSQL, S3 and Spark on this machine, and a count of what was lost (nothing)."""
    from watcher.demo.command import demo_command  # noqa: PLC0415  see watcher.cli

    raise typer.Exit(demo_command(json_output=as_json, keep=keep, database=database))


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
    if not connect:
        warnings = [_problem(problem, "warning") for problem in configuration.warnings]
        show(warnings, lambda: "\n".join([*map(str, configuration.warnings), _summary(configuration)]))
        return
    from watcher.source_checks import all_findings  # noqa: PLC0415  see watcher.cli

    findings = anyio.run(all_findings, configuration)
    show(findings, lambda: table(findings, COLUMNS))
    if any(finding["level"] == "error" for finding in findings):
        raise typer.Exit(Exit.CHECK_FAILED)


def _check_store(configuration: Configuration, *, as_json: bool) -> None:
    from watcher.metadata import check_store  # noqa: PLC0415  see watcher.cli

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
    parts = (("asset", configuration.assets), ("watcher", configuration.watchers), ("job", configuration.jobs))
    counted = (f"{len(members)} {word}{'' if len(members) == 1 else 's'}" for word, members in parts)
    return f"{configuration.file} is right: {', '.join(counted)}; --connect also looks at the sources"
