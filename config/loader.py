"""From a YAML file to a `Configuration`, or to all that is wrong with it at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel

from config.assets import AssetReader
from config.document import Document, KeyPath, read
from config.errors import ConfigurationInvalid, Problem, UnknownClass
from config.interpolation import Interpolation, override_settings
from config.jobs import ingest_faults, job_cycles
from config.models import AliasConfig, Configuration, JobConfig, SparkConfig
from config.names import Scope, did_you_mean
from config.report import Report
from config.settings import Section, Settings
from config.vocabulary import Vocabulary

VERSION: Final = 1


def load(path: Path, vocabulary: Vocabulary, environ: Mapping[str, str], *, with_files: bool = False) -> Configuration:
    """The configuration in the file or folder `path`. Raises `ConfigurationInvalid`. Reads files: not for the event loop.

    `with_files` also refuses jobs whose application is not there; a daemon starts without it, for its watchers need none.
    """
    document = read(path)
    override_settings(document, environ)
    folder = (path if path.is_dir() else path.parent).absolute()
    interpolation = Interpolation(environ, folder)
    document.data = interpolation.expand(document.data)
    report = Report(document, interpolation)
    for place, sentence in interpolation.problems:
        report.add(place, sentence)
    content = _content(document, report, vocabulary, folder, with_files=with_files)
    if document.problems:
        raise ConfigurationInvalid(document.problems)
    return Configuration(**content, file=path, folder=folder, warnings=_warnings(document, content["jobs"]))


def _check_version(version: object) -> object:
    if version != VERSION or isinstance(version, bool):
        raise ValueError(f"must be {VERSION}, the only version of the format that this release reads")
    return version


class _Layout(Section):
    """The top of the document, for its errors only: its parts are validated one by one."""

    version: Annotated[Any, AfterValidator(_check_version)]
    settings: dict[str, Any] | None = None
    connections: dict[str, Any] | None = None
    assets: dict[str, Any] | None = None
    aliases: dict[str, Any] | None = None
    jobs: dict[str, Any] | None = None


def _content(
    document: Document, report: Report, vocabulary: Vocabulary, folder: Path, *, with_files: bool
) -> dict[str, Any]:
    """The fields of a `Configuration`; None stands for a part with a problem."""
    report.validate(_Layout, document.data, ())
    sections = {name: _mapping(document.data.get(name)) for name in _Layout.model_fields}
    scope = Scope(
        folder=folder,
        assets=sections["assets"].keys(),
        aliases=sections["aliases"].keys(),
        connections=sections["connections"].keys(),
        with_files=with_files,
    )
    reader = AssetReader(report, vocabulary, scope, sections["connections"])

    def entries(section: str) -> Iterator[tuple[str, Any, KeyPath]]:
        for name, entry in sections[section].items():
            report.check_name(name, (section, name))
            yield name, entry, (section, name)

    settings = report.validate(Settings, sections["settings"], ("settings",), scope)
    if settings is not None:
        vocabulary.add_plugins(settings.plugins_dir)
    connections = {
        name: _connection(entry, path, report, vocabulary, scope) for name, entry, path in entries("connections")
    }
    assets = {name: reader.read(name, entry, path) for name, entry, path in entries("assets")}
    jobs: dict[str, JobConfig | None] = {}
    submitter_options: dict[str, BaseModel] = {}
    for name, entry, path in entries("jobs"):
        spark, options = _submitter_options(entry, path, report, vocabulary, scope)
        jobs[name] = report.validate(JobConfig, spark, path, scope)
        if options is not None:
            submitter_options[name] = options
    for name, job in jobs.items():
        if job is not None:
            for place, sentence in ingest_faults(job, assets, connections):
                report.add(("jobs", name, *place), sentence)
    return {
        "settings": settings,
        "connections": connections,
        "assets": assets,
        "aliases": {
            name: report.validate(AliasConfig, _given(entry), path) for name, entry, path in entries("aliases")
        },
        "jobs": jobs,
        "submitter_options": submitter_options,
    }


def _mapping(section: Any) -> dict[str, Any]:
    return section if isinstance(section, dict) else {}


def _given(entry: Any) -> Any:
    """`orders:` with nothing after it means all defaults."""
    return {} if entry is None else entry


def _submitter_options(
    job: Any, path: KeyPath, report: Report, vocabulary: Vocabulary, scope: Scope
) -> tuple[Any, BaseModel | None]:
    """The job without its submitter's own options, and these; None of a submitter that has none."""
    spark = _mapping(_mapping(job).get("spark"))
    name = spark.get("submitter")
    if not isinstance(name, str):
        return job, None
    model = None
    try:
        model = vocabulary.submitter(name)
        own = _names(model) - _names(SparkConfig)
    except UnknownClass as error:
        report.add_unknown((*path, "spark", "submitter"), name, error)
        own = set(spark) - _names(SparkConfig)  # nobody knows what they would mean
    options = {key: value for key, value in spark.items() if key in own}
    job = {**job, "spark": {key: value for key, value in spark.items() if key not in own}}
    if model is None or not model.model_fields:
        return job, None
    return job, report.validate(model, options, (*path, "spark"), scope)


def _names(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def _connection(entry: Any, path: KeyPath, report: Report, vocabulary: Vocabulary, scope: Scope) -> BaseModel | None:
    if not report.is_mapping(entry, path):
        return None
    name = entry.get("type")
    if not isinstance(name, str):
        fault = "is missing" if name is None else "must name a type of connection"
        report.add((*path, "type"), f"{fault}; {did_you_mean(str(name), vocabulary.connections)}")
        return None
    try:
        model = vocabulary.connection(name)
    except UnknownClass as error:
        report.add_unknown((*path, "type"), name, error)
        return None
    return report.validate(model, entry, path, scope)


def _warnings(document: Document, jobs: Mapping[str, JobConfig]) -> tuple[Problem, ...]:
    sentence = "these jobs start each other in a circle: {}; make sure that something ends it"
    return tuple(
        document.problem(("jobs", cycle[0]), sentence.format(" -> ".join(cycle))) for cycle in job_cycles(jobs)
    )
