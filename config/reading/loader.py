"""Reads a YAML file or folder into a `Configuration`, or reports everything that is wrong with it at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator

from config.errors import Problem, refusing_faults
from config.models.configuration import Configuration
from config.models.jobs import JobConfig
from config.models.settings import Settings
from config.names import Scope
from config.reading.cross_checks import cross_faults, job_cycles
from config.reading.entries import Entries, as_mapping, read_entries
from config.reading.partition_checks import waiting_for_ever, with_manifests
from config.reading.report import Report
from config.reading.sources import folder_of, stamps
from config.section import Section
from config.vocabulary import Vocabulary

VERSION: Final = 1

EntryT = TypeVar("EntryT")


def load(path: Path, vocabulary: Vocabulary, environ: Mapping[str, str], *, with_files: bool = False) -> Configuration:
    """Read the configuration in the file or folder `path`. Raises `ConfigurationInvalid`.

    It reads files, so it must not be called in the event loop. `with_files` also refuses jobs whose files do not exist. A
    daemon starts without it, because its watchers do not need those files.
    """
    with refusing_faults(path):
        as_read = stamps(path, ())
        report = Report.of(path, environ)
        entries = _read_all(report, vocabulary, Scope(folder=folder_of(path), with_files=with_files))
        report.refuse_problems()
        assert entries.settings is not None  # noqa: S101  it had no problem
        jobs = _complete(entries.jobs)
        return Configuration(
            settings=entries.settings,
            connections=_complete(entries.connections),
            given_connections=dict(entries.given_connections),
            assets=with_manifests(_complete(entries.assets), jobs),
            aliases=_complete(entries.aliases),
            jobs=jobs,
            submitter_options=dict(entries.submitter_options),
            file=path,
            folder=folder_of(path),
            environment=report.interpolation.names,
            secrets=frozenset(report.interpolation.files),
            read_as={**as_read, **report.interpolation.files},
            warnings=_warnings(report, entries, jobs, entries.settings),
        )


def _check_version(version: object) -> object:
    if version != VERSION or isinstance(version, bool):
        raise ValueError(f"must be {VERSION}, the only version of the format")
    return version


class _Layout(Section):
    """The top of the document, for its errors only: its parts are validated one by one."""

    version: Annotated[Any, AfterValidator(_check_version)]
    settings: dict[str, Any] | None = None
    connections: dict[str, Any] | None = None
    assets: dict[str, Any] | None = None
    aliases: dict[str, Any] | None = None
    jobs: dict[str, Any] | None = None


def _read_all(report: Report, vocabulary: Vocabulary, scope: Scope) -> Entries:
    """Validate the whole document, and add all its problems to the `report`."""
    data = report.document.data
    report.validate(_Layout, data, ())
    sections = {name: as_mapping(data.get(name)) for name in _Layout.model_fields}
    scope = replace(
        scope,
        assets=sections["assets"].keys(),
        aliases=sections["aliases"].keys(),
        connections=sections["connections"].keys(),
    )
    entries = read_entries(report, vocabulary, scope, sections)
    for place, sentence in cross_faults(entries):
        report.add(place, sentence)
    return entries


def _complete(entries: Mapping[str, EntryT | None]) -> dict[str, EntryT]:
    """`entries` of a document without problems, in which none is None."""
    return {name: entry for name, entry in entries.items() if entry is not None}


def _warnings(
    report: Report, entries: Entries, jobs: Mapping[str, JobConfig], settings: Settings
) -> tuple[Problem, ...]:
    sentence = "these jobs start each other in a circle: {}; make sure that something ends it"
    exchanges = {name: each for part in settings.parts for name, each in part.exchanges(settings).items()}
    circles = [
        (("jobs", next(name for name in cycle if name in jobs)), sentence.format(" -> ".join(cycle)))
        for cycle in job_cycles(jobs, exchanges)
    ]
    unavailable = [(("settings", "features"), sentence) for sentence in report.unavailable.values()]
    warnings = [*entries.warnings, *circles, *unavailable, *waiting_for_ever(jobs)]
    return tuple(report.document.problem(path, message) for path, message in warnings)
