"""`watcher check` and `reload`, which read the configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import anyio
import typer

from config.errors import ConfigurationInvalid, Problem
from store.errors import BackendUnusable
from store.processes.file_locks import is_held
from watcher.cli.api_client import ApiClient
from watcher.cli.commands import DEFAULT_CONFIG, ConfigOption, command, load_configuration, local_command
from watcher.cli.failures import CommandFailed, ExitCode
from watcher.cli.output import Show
from watcher.cli.tables import Column, Columns, fields, properties, table
from watcher.features.commands.verdicts import verdicts
from watcher.installed import Installed, installed

if TYPE_CHECKING:
    from config.models import Configuration

_UNPROCESSABLE = 422
SECTIONS = ("assets", "watchers", "connections", "aliases", "jobs")
PROCESSES: Columns = {
    **fields(host="host", pid="pid"),
    "roles": Column(lambda process: ", ".join(process["roles"])),
    "runs it": Column(lambda process: "yes" if process["is_current"] else "no"),
}
top = typer.Typer()


_EARLIER: Final = {
    "caught_up": "stored events that new jobs get, because of `catchup`",
    "left_out": "events stored before new jobs that these never get (`catchup: true` in a new job gets them)",
    "cleaned": "files of caught up events that new jobs do not get, because `clean_source` has deleted them",
}
"""The words of a reload's answer about events that were stored before a job was first seen."""


@command(top, "reload")
async def _reload(api: ApiClient, show: Show) -> None:
    """Let the daemon read its configuration again. If the file is wrong, nothing changes and the exit code is 2."""
    answer = await api.send("POST", "/api/v2/reload", accepted=_UNPROCESSABLE)
    content = answer.json()
    if not answer.is_success:
        problems = [
            Problem(file=each["file"], line=each["line"], path=_dotted(each), message=each["msg"])
            for each in content["detail"]
        ]
        _refuse(show, ConfigurationInvalid(problems))
    lines = {
        section: "; ".join(f"{kind} {', '.join(names)}" for kind, names in content[section].items() if names)
        for section in SECTIONS
    }
    lines |= _of_events(content)
    changed = {section: line for section, line in lines.items() if line}
    show(content, lambda: properties({"result": content["result"], **changed}))
    if content["processes"]:
        show.more(lambda: table(content["processes"], PROCESSES))


def _of_events(content: Mapping[str, Any]) -> Mapping[str, str]:
    """Return what a reload did to stored and queued events, and which watchers it blocks, in lines."""
    lines: dict[str, str] = {}
    if content["dropped"]:
        lines["dropped"] = f"{content['dropped']} queued events of jobs that were removed"
    if content["kept"]:
        of_jobs = ", ".join(f"{events} of {dag_id}" for dag_id, events in content["kept"].items())
        lines["kept"] = (
            f"queued events that their jobs no longer wait for: {of_jobs}; they go with the next run, or by `watcher jobs queue`"
        )
    lines |= {f"{name} is blocked": sentence for name, sentence in content["decisions"].items()}
    for word, what in _EARLIER.items():
        if content[word]:
            lines[word.replace("_", " ")] = f"{what}: " + ", ".join(f"{n} of {job}" for job, n in content[word].items())
    return lines


def _dotted(fault: Mapping[str, Any]) -> str:
    return ".".join(fault["loc"][1:])


def _refuse(show: Show, error: ConfigurationInvalid) -> NoReturn:
    if show.problem([_problem(problem, "error") for problem in error.problems]):
        raise typer.Exit(ExitCode.USAGE)
    raise error


@local_command(top, "check")
def check(
    show: Show,
    config: ConfigOption = DEFAULT_CONFIG,
    connect: Annotated[
        bool, typer.Option("--connect", help="Reach every source and judge it, and look for what runs would miss.")
    ] = False,
    details: Annotated[bool, typer.Option("--details", help="With --connect, also show what is right.")] = False,
) -> None:
    """Check the configuration, and with --connect the sources. Exit code 2: it is wrong; 3: a source is wrong."""
    try:
        configuration = load_configuration(config, with_files=True)
    except ConfigurationInvalid as error:
        _refuse(show, error)
    features = installed(configuration.settings.features)
    _check_features(features)
    _check_store(show, configuration)
    if not connect:
        from watcher.features.commands.changed_defaults import changed_defaults  # noqa: PLC0415  see watcher.cli

        warnings = [*configuration.warnings, *_lacking_here(configuration), *_needing_restart(configuration)]
        changed = [*changed_defaults(configuration)]
        lines = [*map(str, warnings), _summary(configuration), *map(str, changed)]
        content = [_problem(each, level) for level, some in (("warning", warnings), ("info", changed)) for each in some]
        show(content, lambda: "\n".join(lines))
        return
    from watcher.configuration.findings import of_another  # noqa: PLC0415
    from watcher.configuration.foreign_classes import open_isolation  # noqa: PLC0415
    from watcher.configuration.source_checks import all_findings  # noqa: PLC0415  see watcher.cli

    used = features.configured(configuration.settings)
    others = used.of_others.resolved("checks")
    checks = [of_another(name, check) if name in others else check for name, check in used.resolved("checks").items()]
    findings = anyio.run(all_findings, configuration, checks, open_isolation)
    show(findings, lambda: verdicts(findings, configuration.watchers, configuration.jobs, details=details))
    if any(finding["level"] == "error" for finding in findings):
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _lacking_here(configuration: Configuration) -> list[Problem]:
    """Return what submitters lack on this machine, each once for all jobs. The daemon may run on another machine."""
    from watcher.configuration.vocabulary import submitter_class  # noqa: PLC0415  see watcher.cli

    problems: dict[str, Problem] = {}
    for name, job in configuration.jobs.items():
        env = {key: value.get_secret_value() for key, value in job.spark.env.items()}
        if fault := submitter_class(job.spark.submitter).lacks_here({**os.environ, **env}):
            file, path = str(configuration.file), f"jobs.{name}.spark"
            problems.setdefault(fault, Problem(file=file, line=None, path=path, message=fault))
    return list(problems.values())


def _needing_restart(configuration: Configuration) -> list[Problem]:
    """Return a problem for settings that differ from those the daemon of this home was started with.

    Nothing is known about the daemon of another home.
    """
    from config.models.changes import changed_settings, restart_sentence  # noqa: PLC0415  see watcher.cli
    from watcher.host.home import lock_path, settings_path  # noqa: PLC0415

    settings = configuration.settings
    try:
        running = json.loads(settings_path(settings.home).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    changed = changed_settings(running, settings) if is_held(lock_path(settings.home)) else []
    sentence = f"the daemon that runs would refuse a reload: {restart_sentence(changed)}"
    return [Problem(file=str(configuration.file), line=None, path="settings", message=sentence)] if changed else []


def _check_features(features: Installed) -> None:
    """Raise `FeatureUnusable` for a feature of another distribution that cannot be imported."""
    for hook in ("upgrade", "start_check", "checks", "routes"):
        features.of_others.resolved(hook)


def _check_store(show: Show, configuration: Configuration) -> None:
    store = configuration.settings.store
    if store.backend == type(store).model_fields["backend"].default and not store.options:
        return  # it is known to be whole, and takes long to import
    from watcher.host.metadata import check_store  # noqa: PLC0415  see watcher.cli

    try:
        check_store(configuration.settings)
    except BackendUnusable as error:
        if show.problem([{"level": "error", "path": "settings.store.backend", "message": str(error)}]):
            raise typer.Exit(ExitCode.USAGE) from None
        raise CommandFailed(str(error), ExitCode.USAGE) from None


def _problem(problem: Problem, level: str) -> dict[str, Any]:
    return {"level": level, **asdict(problem)}


def _summary(configuration: Configuration) -> str:
    parts = (("asset", configuration.assets), ("watcher", configuration.watchers), ("job", configuration.jobs))
    counted = (f"{len(members)} {word}{'' if len(members) == 1 else 's'}" for word, members in parts)
    return f"{configuration.file} is right: {', '.join(counted)}; --connect also looks at the sources"
