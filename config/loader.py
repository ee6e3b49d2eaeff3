"""From a YAML file to a `Configuration`, or to all that is wrong with it at once.

Watchers' options are checked by their triggers; jobs also against the rest of the configuration, and against each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Final, get_args
from urllib.parse import quote

from pydantic import AfterValidator, BaseModel

from config.document import Document, KeyPath, folder_of
from config.errors import Problem, refusing_faults
from config.models import INGEST, AliasConfig, AssetConfig, Configuration, JobConfig, SparkConfig, WatcherConfig
from config.names import Scope, did_you_mean
from config.report import Report
from config.schedules import AssetCondition, Reference, references
from config.section import MOST, Section
from config.sentences import keys
from config.settings import AirflowSettings, Settings
from config.sources import stamps
from config.uris import normalise
from config.vocabulary import Isolation, TriggerKind, Vocabulary


class _Reader:
    """Reads the document's entries one after the other; URIs and watcher names are unique over all assets."""

    def __init__(self, report: Report, vocabulary: Vocabulary, scope: Scope, connections: Mapping[str, Any]) -> None:
        """`connections` as written: one that is wrong in itself can still be referred to."""
        self._report = report
        self._vocabulary = vocabulary
        self._scope = scope
        self._connections = connections
        self._uris: dict[str, KeyPath] = {}
        self._watchers: dict[str, KeyPath] = {}

    def connection(self, entry: Any, path: KeyPath) -> BaseModel | None:
        if not self._report.is_mapping(entry, path):
            return None
        name = entry.get("type")
        if not isinstance(name, str):
            fault = "is missing" if name is None else "must name a type of connection"
            self._report.add((*path, "type"), f"{fault}; {did_you_mean(str(name), self._vocabulary.connections)}")
            return None
        model = self._report.look_up(self._vocabulary.connection, name, (*path, "type"))
        return self._report.validate_any(model, entry, path, self._scope) if model else None

    def job(self, entry: Any, path: KeyPath) -> tuple[JobConfig | None, BaseModel | None]:
        """The job without its submitter's own options, and these; None of a submitter that has none."""
        spark = _mapping(_mapping(entry).get("spark"))
        options, name = None, spark.get("submitter")
        if isinstance(name, str):
            model = self._report.look_up(self._vocabulary.submitter, name, (*path, "spark", "submitter"))
            # Of an unknown submitter nobody knows what its options would mean.
            own = (keys(model) if model else spark).keys() - keys(SparkConfig).keys()
            entry = {**entry, "spark": {key: value for key, value in spark.items() if key not in own}}
            if model is not None and model.model_fields:
                given = {key: value for key, value in spark.items() if key in own}
                options = self._report.validate(model, given, (*path, "spark"), self._scope)
        return self._report.validate(JobConfig, entry, path, self._scope), options

    def asset(self, name: str, entry: Any, path: KeyPath) -> AssetConfig | None:
        """The asset `name`; None or an asset without some of its watchers when there are problems."""
        content = _given(entry)
        if not self._report.is_mapping(content, path):
            return None
        # Quoting changes no name that is one; of one that is not there is no second problem.
        content = {"uri": quote(name), **content}
        watchers = _given(content.pop("watchers", None))
        implied = self._uri(content["uri"], (*path, "uri"))
        if not self._report.is_mapping(watchers, (*path, "watchers")):
            return None
        content["watchers"] = {
            watcher: config
            for watcher, options in watchers.items()
            if (config := self._watcher(watcher, name, options, (*path, "watchers", watcher), implied))
        }
        return self._report.validate(AssetConfig, content, path)

    def _uri(self, written: Any, path: KeyPath) -> str | None:
        """The normalised URI for `TriggerKind.defaults`, None of a bad one.

        It keeps the slash at its end, unless it names a table: the prefix `orders/` is not the prefix `orders`.
        """
        try:
            uri = normalise(written)
        except (TypeError, ValueError):
            return None  # the asset's model says so
        if first := self._uris.get(uri):
            self._report.add(path, f"is the URI of another asset at {self._report.place(first)}; name that one instead")
        self._uris.setdefault(uri, path)
        dropped = written.endswith("/") and not uri.endswith("/") and not uri.startswith("postgres:")
        return f"{uri}/" if dropped else uri

    def _watcher(self, name: str, asset: str, entry: Any, path: KeyPath, uri: str | None) -> WatcherConfig | None:
        self._report.check_name(name, path)
        if first := self._watchers.get(name):
            self._report.add(path, f"is the name of another watcher at {self._report.place(first)}; rename one of them")
        self._watchers.setdefault(name, path)
        if not self._report.is_mapping(entry, path):
            return None
        options = dict(entry)
        trigger, connection = options.pop("trigger", None), options.pop("connection", None)
        isolation = self._isolation(options.pop("isolation", None), (*path, "isolation"))
        pause_after = self._count(options.pop(_PAUSE_AFTER, None), (*path, _PAUSE_AFTER))
        kind = self._kind(trigger, isolation, (*path, "trigger"))
        if kind is None:
            return None
        fault = self._connection_fault(connection, kind.connection_type)
        if fault:
            self._report.add((*path, "connection"), fault)
        validated = self._options(kind, options, path, uri)
        if fault or validated is None:
            return None
        where = {"connection": connection, "isolation": kind.isolation, _PAUSE_AFTER: pause_after}
        return WatcherConfig(name=name, asset=asset, trigger=trigger, options=validated, **where)

    def _count(self, written: Any, path: KeyPath) -> int | None:
        """A text is what the environment gives."""
        count = int(written) if isinstance(written, str) and written.isascii() and written.isdigit() else written
        if count is None or (type(count) is int and 1 <= count <= MOST):
            return count
        self._report.add(path, f"must be a whole number, at least 1 and at most {MOST}, or null")
        return None

    def _isolation(self, written: Any, path: KeyPath) -> Isolation | None:
        known: tuple[Isolation, ...] = get_args(Isolation)
        if written is not None and written not in known:
            self._report.add(path, "must be `process` or `none`")
        return next((isolation for isolation in known if isolation == written), None)

    def _kind(self, trigger: Any, isolation: Isolation | None, path: KeyPath) -> TriggerKind | None:
        if not isinstance(trigger, str):
            known = did_you_mean("", self._vocabulary.triggers)
            self._report.add(path, f"must name a trigger, or the dotted path of a class of yours; {known}")
            return None
        return self._report.look_up(lambda name: self._vocabulary.trigger(name, isolation), trigger, path)

    def _connection_fault(self, connection: Any, needed: str | None) -> str | None:
        if needed is None:
            return None if connection is None else "is of no use to this trigger; remove it"
        fitting = [name for name, entry in self._connections.items() if _type(entry) == needed]
        remedy = did_you_mean(str(connection), fitting) if fitting else f"add one of `type: {needed}` to `connections`"
        if connection is None:
            return f"is missing: this trigger needs a connection of type `{needed}`; {remedy}"
        if not isinstance(connection, str):
            return f"must be the name of a connection; {remedy}"
        if fault := self._scope.check_connection(connection):
            return fault
        if connection in fitting:
            return None
        return f"`{connection}` is not of type `{needed}`, which this trigger needs; {remedy}"

    def _options(self, kind: TriggerKind, options: dict[str, Any], path: KeyPath, uri: str | None) -> BaseModel | None:
        """Without a good URI nobody knows what it would have implied, so nothing is said to be missing."""
        try:
            implied = {} if uri is None else kind.defaults(uri)
        except ValueError as error:
            self._report.add(path, str(error))
            return None
        except Exception as error:  # noqa: BLE001  a plug-in's own code may raise anything
            self._report.add(path, f"the trigger's `defaults` raised {type(error).__name__}; mend the class")
            return None
        given = {**implied, **options}
        return self._report.validate_any(kind.options, given, path, self._scope, complete=uri is not None)


def _type(connection: Any) -> Any:
    return connection.get("type") if isinstance(connection, dict) else None


VERSION: Final = 1


def load(path: Path, vocabulary: Vocabulary, environ: Mapping[str, str], *, with_files: bool = False) -> Configuration:
    """The configuration in the file or folder `path`. Raises `ConfigurationInvalid`. Reads files: not for the event loop.

    `with_files` also refuses jobs whose application is not there; a daemon starts without it, for its watchers need none.
    """
    with refusing_faults(path):
        as_read = stamps(path, ())
        report = Report.of(path, environ)
        folder, interpolation = folder_of(path), report.interpolation
        content = _content(report, vocabulary, Scope(folder=folder, with_files=with_files))
        report.refuse_problems()
        return Configuration(
            **content,
            file=path,
            folder=folder,
            environment=interpolation.names,
            secrets=frozenset(interpolation.files),
            read_as={**as_read, **interpolation.files},
            warnings=_warnings(report.document, content["jobs"], content["settings"]),
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


def _content(report: Report, vocabulary: Vocabulary, scope: Scope) -> dict[str, Any]:
    """The fields of a `Configuration`; None stands for a part with a problem."""
    data = report.document.data
    report.validate(_Layout, data, ())
    sections = {name: _mapping(data.get(name)) for name in _Layout.model_fields}
    scope = replace(
        scope,
        assets=sections["assets"].keys(),
        aliases=sections["aliases"].keys(),
        connections=sections["connections"].keys(),
    )
    reader = _Reader(report, vocabulary, scope, sections["connections"])

    def entries(section: str) -> Iterator[tuple[str, Any, KeyPath]]:
        for name, entry in sections[section].items():
            report.check_name(name, (section, name))
            yield name, entry, (section, name)

    settings = report.validate(Settings, sections["settings"], ("settings",), scope)
    if settings is not None:
        vocabulary.add_plugins(settings.plugins_dir, report.interpolation.names)
    connections = {name: reader.connection(entry, path) for name, entry, path in entries("connections")}
    assets = {name: reader.asset(name, entry, path) for name, entry, path in entries("assets")}
    jobs = {name: reader.job(entry, path) for name, entry, path in entries("jobs")}
    for name, (job, _) in jobs.items():
        for place, sentence in ingest_faults(job, assets, connections) if job else ():
            report.add(("jobs", name, *place), sentence)
        if job and job.spark.warm and settings and settings.scheduler.warm_memory_mb == 0:
            report.add(
                ("jobs", name, "spark", "warm"), "needs memory: raise settings.scheduler.warm_memory_mb, which is 0"
            )
    for path, name in unknown_neighbours(settings, assets):
        report.add(path, f"unknown asset `{name}`; {did_you_mean(name, assets)}")
    return {
        "settings": settings,
        "connections": connections,
        "given_connections": sections["connections"],
        "assets": assets,
        "aliases": {
            name: report.validate(AliasConfig, _given(entry), path) for name, entry, path in entries("aliases")
        },
        "jobs": {name: job for name, (job, _) in jobs.items()},
        "submitter_options": {name: options for name, (_, options) in jobs.items() if options is not None},
    }


def _mapping(section: Any) -> dict[str, Any]:
    return section if isinstance(section, dict) else {}


def _given(entry: Any) -> Any:
    """`orders:` with nothing after it means all defaults."""
    return {} if entry is None else entry


def unknown_neighbours(settings: Settings | None, assets: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Where `settings.airflow` names an asset of ours that there is not, and its name."""
    airflow = None if settings is None else settings.airflow
    if airflow is None:
        return
    yield from ((("settings", "airflow", "forward", name), name) for name in airflow.forward if name not in assets)
    for theirs, name in airflow.listen.items():
        if name not in assets:
            yield ("settings", "airflow", "listen", theirs), name


def _warnings(document: Document, jobs: Mapping[str, JobConfig], settings: Settings) -> tuple[Problem, ...]:
    sentence = "these jobs start each other in a circle: {}; make sure that something ends it"
    cycles = job_cycles(jobs, settings.airflow)
    return tuple(
        document.problem(("jobs", next(name for name in cycle if name in jobs)), sentence.format(" -> ".join(cycle)))
        for cycle in cycles
    )


def ingest_faults(
    job: JobConfig, assets: Mapping[str, AssetConfig | None], connections: Mapping[str, Any]
) -> Iterator[tuple[KeyPath, str]]:
    """What a job of `builtin:ingest` lacks: where in the job, and a sentence each.

    Assets and connections that are wrong in themselves are None.
    """
    if job.spark.application != INGEST:
        return
    target, key = job.spark.options.get("target"), "target"
    outlets = [outlet.name for outlet in job.outlets if isinstance(outlet, AssetCondition)]
    uris = {name: asset.uri for name in outlets if (asset := assets.get(name))}
    tables = [name for name in outlets if target in {None, uris.get(name)}] or outlets
    if len(tables) != 1:
        yield ("outlets",), "must name one asset, whose store will tell of the table that builtin:ingest writes"
        return
    if job.spark.options.get("format") == "iceberg":
        yield from _iceberg_faults(job, connections)
        target, key = job.spark.options.get("bad_records"), "bad_records"
    place = target or uris.get(tables[0], "s3:")
    if not place.startswith(("file:/", "s3:", "s3a:", "/")):
        remedy = f"give the outlet a uri that begins with file: or s3:, or set spark.options.{key}"
        yield ("spark", "options", key) if target else ("outlets",), f"`{place}` is no place for a table: {remedy}"
    if job.spark.options.get("dedupe_key") and job.max_active_runs > 1:
        yield ("max_active_runs",), "must be 1 with dedupe_key: two runs at a time could load the same row"
    if missing := _missing_connection(job, assets, connections, writes_s3=place.startswith(("s3:/", "s3a:/"))):
        yield ("spark", "connections"), missing


def _iceberg_faults(job: JobConfig, connections: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Beside them there must be a place for bad records."""
    options, listed = job.spark.options, job.spark.connections
    if "." not in (options.get("target") or ""):
        yield ("spark", "options", "target"), "must be `<namespace>.<table>` with `format: iceberg`"
    catalogs = [name for name in listed if getattr(connections.get(name), "type", "iceberg") == "iceberg"]
    if not catalogs:
        yield ("spark", "connections"), "must list a connection of type iceberg, by which the table is written"
    for name in catalogs:
        storage = getattr(connections.get(name), "storage", None)
        if storage is not None and storage not in listed:
            yield ("spark", "connections"), f"must list `{storage}` too, the storage of `{name}`"


def _missing_connection(
    job: JobConfig, assets: Mapping[str, AssetConfig | None], connections: Mapping[str, Any], *, writes_s3: bool
) -> str | None:
    listed = job.spark.connections
    awaited = references(job.schedule.condition) if job.schedule else ()
    read = {asset.name for asset in (*awaited, *job.inlets) if isinstance(asset, AssetCondition)}
    for asset in filter(None, map(assets.get, sorted(read))):
        for watcher in asset.watchers.values():
            if watcher.connection is not None and watcher.connection not in listed:
                return f"must list `{watcher.connection}`, by which {watcher.name} finds what is to be read"
    if writes_s3 and not any(getattr(connections.get(name), "type", "s3") == "s3" for name in listed):
        return "must list a connection of type s3, by which the table is written"
    return None


_PAUSE_AFTER: Final = "pause_after_failures"
AIRFLOW: Final = "(Airflow)"
"""Stands among the jobs for all that Airflow may do between what it is sent and what comes from it."""


def job_cycles(jobs: Mapping[str, JobConfig], airflow: AirflowSettings | None = None) -> list[tuple[str, ...]]:
    """Jobs that start each other in a circle, which is allowed, for a condition may end it, and worth a warning.

    Circles of jobs in which each one's outlets are in the schedule of the next; enough of them to have each circle broken.
    """
    writers: dict[Reference, set[str]] = {}
    for name, job in jobs.items():
        for outlet in job.outlets:
            writers.setdefault(outlet, set()).add(name)
    sent: set[str] = set()
    if airflow is not None:
        sent = {writer for name in airflow.forward for writer in writers.get(AssetCondition(name=name), ())}
        for name in airflow.listen.values():
            writers.setdefault(AssetCondition(name=name), set()).add(AIRFLOW)
    upstream = {name: _upstream(job, writers) for name, job in jobs.items()} | {AIRFLOW: sent}
    cycles = []
    while cycle := _first_cycle(upstream):
        cycles.append(tuple(cycle))
        upstream[cycle[-1]].discard(cycle[-2])
    return cycles


def _upstream(job: JobConfig, writers: Mapping[Reference, set[str]]) -> set[str]:
    awaited = references(job.schedule.condition) if job.schedule else ()
    return {writer for reference in awaited for writer in writers.get(reference, ())}


def _first_cycle(upstream: Mapping[str, set[str]]) -> list[str]:
    """Each job of a circle before the one it starts, the first one again at the end; [] when there is none."""
    try:
        TopologicalSorter(upstream).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []
