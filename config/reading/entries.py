"""The entries of a document, validated one by one.

A watcher's options are validated by its trigger, a connection by the model of its `type`, a job also by its submitter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args
from urllib.parse import quote

from pydantic import BaseModel

from config.errors import KeyPath
from config.facts import WatcherFacts
from config.models.assets import AliasConfig, AssetConfig, WatcherConfig
from config.models.jobs import JobConfig
from config.models.settings import Settings
from config.models.spark import SparkConfig
from config.models.uris import normalise
from config.names import Isolation, Scope, did_you_mean
from config.reading.report import Report
from config.section import LARGEST_INT, keys
from config.vocabulary import TriggerKind, Vocabulary

_PAUSE_AFTER: Final = "pause_after_failures"
_CLEAN_SOURCE: Final = "clean_source"


@dataclass(frozen=True, kw_only=True)
class Entries:
    """The parts of a configuration. None stands for one that has a problem, which is then in the report."""

    settings: Settings | None
    connections: Mapping[str, BaseModel | None]
    given_connections: Mapping[str, Any]
    """The connections as they were written, with `${…}` replaced."""
    assets: Mapping[str, AssetConfig | None]
    aliases: Mapping[str, AliasConfig | None]
    jobs: Mapping[str, JobConfig | None]
    submitter_options: Mapping[str, BaseModel]
    """The submitter's own options, by job, where it has any."""
    warnings: Sequence[tuple[KeyPath, str]]
    """What is allowed, but is better written otherwise, each with its place."""


def read_entries(report: Report, vocabulary: Vocabulary, scope: Scope, sections: Mapping[str, Any]) -> Entries:
    """Validate all `sections` of the document, each a mapping by name, and add their problems to the `report`.

    `scope` already has the names in the sections.
    """

    def entries(section: str) -> Iterator[tuple[str, Any, KeyPath]]:
        for name, entry in sections[section].items():
            report.check_name(name, (section, name))
            yield name, entry, (section, name)

    settings = report.validate_settings(vocabulary.settings, sections["settings"], scope)
    if settings is not None:
        vocabulary.add_plugins(settings.plugins_dir, report.interpolation.names)
    reader = _EntryReader(report, vocabulary, scope, sections["connections"])
    connections = {name: reader.connection(entry, path) for name, entry, path in entries("connections")}
    assets = {name: reader.asset(name, entry, path) for name, entry, path in entries("assets")}
    jobs = {name: reader.job(entry, path) for name, entry, path in entries("jobs")}
    return Entries(
        settings=settings,
        connections=connections,
        given_connections=sections["connections"],
        assets=assets,
        aliases={name: report.validate(AliasConfig, _given(entry), path) for name, entry, path in entries("aliases")},
        jobs={name: job for name, (job, _) in jobs.items()},
        submitter_options={name: options for name, (_, options) in jobs.items() if options is not None},
        warnings=reader.warnings,
    )


class _EntryReader:
    """Validates one entry after the other. It remembers URIs and names of watchers: they are unique over all assets."""

    def __init__(self, report: Report, vocabulary: Vocabulary, scope: Scope, connections: Mapping[str, Any]) -> None:
        """`connections` are as written, because a reference to a connection that has a problem is no problem itself."""
        self._report = report
        self._vocabulary = vocabulary
        self._scope = scope
        self._connections = connections
        self._uris: dict[str, KeyPath] = {}
        self._watchers: dict[str, KeyPath] = {}
        self.warnings: list[tuple[KeyPath, str]] = []

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
        """The job without its submitter's own options, and these options; None if the submitter has no options."""
        spark = as_mapping(as_mapping(entry).get("spark"))
        options, name = None, spark.get("submitter")
        if isinstance(name, str):
            model = self._report.look_up(self._vocabulary.submitter, name, (*path, "spark", "submitter"))
            # Any unknown key may be an option of an unknown submitter, so none of them is reported.
            own = (keys(model) if model else spark).keys() - keys(SparkConfig).keys()
            entry = {**entry, "spark": {key: value for key, value in spark.items() if key not in own}}
            if model is not None and model.model_fields:
                given = {key: value for key, value in spark.items() if key in own}
                options = self._report.validate(model, given, (*path, "spark"), self._scope)
        job = self._report.validate(JobConfig, entry, path, self._scope)
        if job is not None and options is not None:
            for key, sentence in self._vocabulary.refusals(job.spark.submitter, job.spark, options):
                self._report.add((*path, "spark", *key.split(".", 1)), sentence)
        return job, options

    def asset(self, name: str, entry: Any, path: KeyPath) -> AssetConfig | None:
        """The asset `name`. If there are problems, it is None or lacks some of its watchers."""
        content = _given(entry)
        if not self._report.is_mapping(content, path):
            return None
        # A valid name is its own quotation. Quoting an invalid name avoids a second problem, about the URI.
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
        """The normalised URI for `TriggerKind.defaults`, or None for an invalid one.

        It keeps a trailing slash, unless it names a table: the prefix `orders/` is not the prefix `orders`.
        """
        try:
            uri = normalise(written)
        except (TypeError, ValueError):
            return None  # the asset's model reports it
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
        trigger = self._meant(trigger, options, (*path, "trigger"))
        kind = self._kind(trigger, isolation, (*path, "trigger"))
        if kind is None:
            return None
        fault = self._connection_fault(connection, kind.connection_type)
        if fault:
            self._report.add((*path, "connection"), fault)
        validated = self._options(kind, options, path, uri)
        if fault or validated is None:
            return None
        facts = self._facts(kind, validated, path)
        if facts is None:
            return None
        if kind.isolation == "process" and facts.cleaned_after is not None:
            key, what = (_CLEAN_SOURCE, "") if _CLEAN_SOURCE in options else ("trigger", "cleans its source, which ")
            self._report.add((*path, key), f"{what}works in the daemon's own process only; write `isolation: none`")
            return None
        return WatcherConfig(
            name=name,
            asset=asset,
            trigger=trigger,
            connection=connection,
            isolation=kind.isolation,
            pause_after_failures=pause_after,
            options=validated,
            facts=facts,
        )

    def _count(self, written: Any, path: KeyPath) -> int | None:
        """The number that was written; the environment gives it as text."""
        count = int(written) if isinstance(written, str) and written.isascii() and written.isdigit() else written
        if count is None or (type(count) is int and 1 <= count <= LARGEST_INT):
            return count
        self._report.add(path, f"must be a whole number, at least 1 and at most {LARGEST_INT}, or null")
        return None

    def _isolation(self, written: Any, path: KeyPath) -> Isolation | None:
        known: tuple[Isolation, ...] = get_args(Isolation)
        if written is not None and written not in known:
            self._report.add(path, "must be `process` or `none`")
        return next((isolation for isolation in known if isolation == written), None)

    def _meant(self, trigger: Any, options: Mapping[str, Any], path: KeyPath) -> Any:
        """The name of the trigger that is meant. A warning names it if another one is written."""
        spelling = self._vocabulary.spelling(trigger, options) if isinstance(trigger, str) else None
        if spelling is None:
            return trigger
        sentence = f"`{trigger}` with `{spelling.key}: {spelling.value}` is `{spelling.trigger}`: write that, which changes nothing else"
        self.warnings.append((path, sentence))
        return spelling.trigger

    def _kind(self, trigger: Any, isolation: Isolation | None, path: KeyPath) -> TriggerKind | None:
        if not isinstance(trigger, str):
            known = did_you_mean("", self._vocabulary.triggers)
            self._report.add(path, f"must name a trigger, or the dotted path of a class of yours; {known}")
            return None
        return self._report.look_up(lambda name: self._vocabulary.trigger(name, isolation), trigger, path)

    def _connection_fault(self, connection: Any, needed: str | None) -> str | None:
        if needed is None:
            return None if connection is None else "has no effect: this trigger uses no connection; remove it"
        fitting = [name for name, entry in self._connections.items() if as_mapping(entry).get("type") == needed]
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
        """The trigger's options. Missing keys are not reported for an asset without a valid URI: it might imply them."""
        try:
            implied = {} if uri is None else kind.defaults(uri)
        except ValueError as error:
            self._report.add(path, str(error))
            return None
        except Exception as error:  # noqa: BLE001  a plug-in's own code may raise anything
            self._report.add(path, f"the trigger's `defaults` raised {type(error).__name__}; correct the class")
            return None
        given = {**implied, **options}
        written = as_mapping(as_mapping(self._report.document.data.get("assets")).get(str(path[1]))).get("uri")
        return self._report.validate_any(
            kind.options,
            given,
            path,
            self._scope,
            complete=uri is not None,
            missing=lambda key: _missing_place(kind, key, written) if isinstance(written, str) else None,
        )

    def _facts(self, kind: TriggerKind, options: BaseModel, path: KeyPath) -> WatcherFacts | None:
        try:
            facts = kind.facts(options)
        except Exception as error:  # noqa: BLE001  a plug-in's own code may raise anything
            self._report.add(path, f"the options' `facts` raised {type(error).__name__}; correct the class")
            return None
        if not isinstance(facts, WatcherFacts):
            self._report.add(path, f"the options' `facts` returned {type(facts).__name__}; correct the class")
            return None
        return facts


def _missing_place(kind: TriggerKind, key: str, written: str) -> str | None:
    """What to write for a missing key that the asset's `uri` would imply if it had a scheme; None if it would not."""
    if ":" in written or not written.strip("/"):
        return None
    below = written.removeprefix("./").strip("/")
    names = below.replace(".", "/").split("/")[-3:]
    table = "/".join([*("database", "schema")[: 3 - len(names)], *names])
    forms = {
        f"file:///{'' if written.startswith('/') else '…/'}{below}": written,
        f"s3://{below}/": below.partition("/")[0] if key == "bucket" else below.partition("/")[2],
        f"postgres://host/{table}": below,
    }
    for uri, value in forms.items():
        try:
            is_implied = key in kind.defaults(uri)
        except Exception:  # noqa: BLE001  a plug-in's own code may raise anything
            return None
        if is_implied:
            return f"is missing: write `{key}: {value}` here, or give the asset a uri with its place, `uri: {uri}`"
    return None


def as_mapping(value: Any) -> dict[str, Any]:
    """`value` if it is a mapping, else an empty one: that it should be one is reported elsewhere."""
    return value if isinstance(value, dict) else {}


def _given(entry: Any) -> Any:
    """`entry`, or {} for null: `orders:` with nothing after it means all defaults."""
    return {} if entry is None else entry
