"""A validated configuration. Field docstrings become docs/configuration.md."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    SecretStr,
    SerializeAsAny,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from config.document import KeyPath
from config.durations import Duration, PositiveDuration
from config.errors import Problem
from config.java_properties import read_properties
from config.names import Name, did_you_mean
from config.schedules import ReferencesField, ScheduleField, needs_several
from config.section import MOST, Section
from config.sentences import misplaced, sentences
from config.settings import Settings
from config.spark_keys import Allocation, Memory, TemplateCheck, check_deploy_mode, check_files, check_mode_key
from config.uris import credentials_in, normalise
from config.vocabulary import Isolation

BUILTIN: Final = "builtin:"
INGEST: Final = "builtin:ingest"


def _check_counted(duration: timedelta) -> timedelta:
    """Of what is stored as a number of seconds."""
    if duration > (longest := timedelta(days=timedelta(seconds=MOST).days)):
        raise ValueError(f"must be at most {longest.days}d")
    return duration


def _check_extra(extra: dict[str, Any]) -> dict[str, Any]:
    hint = "looks like a credential, and `extra` is stored and shown in clear: keep it in a connection"
    faults: list[tuple[KeyPath, str]] = [(path, hint) for path in credentials_in(extra)]
    if faults:
        raise misplaced(extra, *faults)
    try:
        json.dumps(extra, allow_nan=False)
    except ValueError:
        raise ValueError("holds a number that JSON cannot write (.nan or .inf); remove it") from None
    return extra


Group: TypeAlias = Annotated[str, Field(min_length=1, max_length=1500)]


class WatcherConfig(Section):
    name: str
    asset: str
    trigger: str
    """A registered name (`s3.new_files`), or the dotted path of a class on `plugins_dir`."""
    connection: str | None = None
    """The connection that the trigger uses."""
    isolation: Isolation = Field(default="none", exclude=True)  # no matter for others, so no part of the hash
    """Where the trigger runs: `process`, a process of its own, which is usual for dotted paths, or `none`."""
    pause_after_failures: int | None = Field(default=None, exclude=True)  # likewise
    """After so many failed polls in a row the watcher is paused until a person resumes it; null: never."""
    options: SerializeAsAny[BaseModel]
    """Validated by the trigger's own model; in the YAML they stand next to `trigger`."""


class AssetConfig(Section):
    uri: Annotated[str, AfterValidator(normalise)]
    """By Airflow's rules; kept as normalised. Default: the asset's name."""
    group: Group = "asset"
    """A word to sort assets by."""
    extra: Annotated[dict[str, Any], AfterValidator(_check_extra)] = Field(default_factory=dict)
    """Anything worth knowing, as JSON; no part of the asset's identity, and no place for credentials."""
    expect_every: Annotated[PositiveDuration, AfterValidator(_check_counted)] | None = None
    """Raise an alert when no event came for so long."""
    watchers: Annotated[dict[Name, WatcherConfig], WithJsonSchema({})] = Field(default_factory=dict)
    """By name, unique in the whole configuration: `trigger`, `connection` and the trigger's options."""


class AliasConfig(Section):
    group: Group = "asset"
    """A word to sort aliases by."""


class BatchConfig(Section):
    mode: Literal["coalesce", "each"] = "coalesce"
    """`coalesce` collects events into one run; `each` makes a run of each, and needs a schedule without `all`."""
    debounce: Duration = timedelta(0)
    """Wait until no event came for so long."""
    max_wait: Duration = timedelta(minutes=5)
    """But not longer than this since the first."""
    max_events: Annotated[int, Field(ge=1, le=MOST)] = 1000
    """Most events of one run."""


def _check_connection(name: str, info: ValidationInfo) -> str:
    if info.context and (fault := info.context.check_connection(name)):
        raise ValueError(fault)
    return name


ConnectionName: TypeAlias = Annotated[str, AfterValidator(_check_connection)]


def _text(value: Any) -> Any:
    """Spark's properties and the environment are texts; YAML makes numbers and truth values of some."""
    return value if isinstance(value, str | dict | list | None) else json.dumps(value)


def _located(place: str, info: ValidationInfo) -> str:
    """A file's place: URLs (`hdfs://…`, `local:…`) as they are, paths from the YAML's folder."""
    if info.context is None or re.match("[A-Za-z][A-Za-z0-9+.-]+:", place):
        return place
    return str(info.context.folder / place)


def _check_application(application: str, info: ValidationInfo) -> str:
    if application.startswith(BUILTIN) and application != INGEST:
        raise ValueError(f"is no built-in application; {did_you_mean(application, [INGEST])}")
    file = Path(application.removeprefix("file:"))
    if info.context and info.context.with_files and file.is_absolute() and not file.is_file():
        raise ValueError("there is no such file; relative paths start at the folder of the configuration")
    return application


def _check_conf(conf: dict[str, str]) -> dict[str, str]:
    check_deploy_mode(conf)
    return conf


def _check_properties_file(place: str, info: ValidationInfo) -> str:
    """Looked into only by whoever checks files: the daemon reads it when a try is submitted."""
    if info.context and info.context.with_files:
        try:
            check_deploy_mode(read_properties(Path(place.removeprefix("file:")).read_text(encoding="utf-8")))
        except OSError:
            raise ValueError("there is no such file; relative paths start at the folder of the configuration") from None
    return place


_SCALAR: Final = WithJsonSchema({"type": ["string", "number", "boolean"]})
Text: TypeAlias = Annotated[str, BeforeValidator(_text), _SCALAR]
SecretText: TypeAlias = Annotated[SecretStr, BeforeValidator(_text), _SCALAR]
Place: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_located)]


class IngestOptions(Section):
    """`spark.options` of `builtin:ingest`."""

    format: Literal["parquet", "delta", "iceberg"] = "parquet"
    """Format of the table."""
    target: Annotated[str, Field(min_length=1)] | None = None
    """Folder or URL of the table; null is the uri of the job's outlet. Of an Iceberg table `<namespace>.<table>`."""
    schema_evolution: Literal["strict", "add_columns"] = "strict"
    """A column that the table does not have is left out, or, unless `format` is `parquet`, added to it."""
    schema_: Annotated[str | None, Field(alias="schema")] = None
    """Columns as Spark's DDL (`id long, amount double`); null infers them once and enforces them from then on."""
    partition_by: str | tuple[str, ...] = ()
    """Columns to partition by."""
    dedupe_key: str | tuple[str, ...] | None = None
    """Columns that tell rows apart; of several with the same values the table gets one."""
    bad_records: Place | None = None
    """Folder for rows that do not fit; null is `<target>_bad`."""
    input_format: Literal["json", "csv", "text", "parquet"] | None = None
    """How to read the files; null is what their names say."""
    missing: Literal["fail", "skip"] = "fail"
    """A file that was deleted or overwritten since it was detected fails the run, or is left out."""
    connection: ConnectionName | None = None
    """The connection to read by, where `spark.connections` lists several of a kind."""
    target_connection: ConnectionName | None = None
    """The connection to write by, likewise; for `format: iceberg` the catalog."""

    @field_validator("target")
    @classmethod
    def _locate(cls, target: str | None, info: ValidationInfo) -> str | None:
        return target if target is None or info.data.get("format") == "iceberg" else _located(target, info)

    @field_validator("schema_evolution")
    @classmethod
    def _check_evolution(cls, evolution: str, info: ValidationInfo) -> str:
        if evolution == "add_columns" and info.data.get("format") == "parquet":
            raise ValueError(
                "`add_columns` needs `format: delta` or `iceberg`: a Parquet table has no schema that could get columns"
            )
        return evolution


# Keys that a submitter is given as they are, in `watcher.submit.base.SparkApplication`: a new one needs no copy there.
class SparkParameters(Section):
    application: Annotated[Place, AfterValidator(_check_application)]
    """Python file, or `builtin:ingest`."""
    master: Annotated[str, Field(min_length=1)] = "local[*]"
    """Spark's master URL; others than `local` in client mode."""
    profile: Literal["small", "large"] = "small"
    """`small` starts quickly; `large` leaves the JVM as it is."""
    driver_memory: Memory = "512m"
    """Heap of the driver."""
    executor_memory: Memory | None = None
    """Heap of each executor, of a cluster; null is Spark's default."""
    executor_cores: Annotated[int, Field(ge=1, le=MOST)] | None = None
    """Cores of each executor, of a cluster; null is Spark's default."""
    num_executors: Annotated[int, Field(ge=1, le=MOST)] | None = None
    """How many executors, on YARN and Kubernetes; with `dynamic_allocation` how many at first."""
    dynamic_allocation: Allocation = False
    """As many executors as there is work for: `true`, or `{min, max}`."""
    conf: Annotated[dict[str, Text], AfterValidator(_check_conf)] = Field(default_factory=dict)
    """Spark properties; Spark's UI and event log show them, so no credentials."""
    packages: tuple[str, ...] = ()
    """Maven coordinates."""
    jars: tuple[Place, ...] = ()
    """Jar files."""
    py_files: tuple[Place, ...] = ()
    """Python files and archives for driver and executors."""
    files: tuple[Place, ...] = ()
    """Files for the working folder of each executor; `#name` behind one renames it on YARN."""
    archives: tuple[Place, ...] = ()
    """Archives that are unpacked there, such as a packed virtual environment; `#name` behind one names the folder."""
    properties_file: Annotated[Place, AfterValidator(_check_properties_file)] | None = None
    """Spark properties from a file, under those of `conf`."""
    args: tuple[Annotated[Text, TemplateCheck], ...] = ()
    """Arguments of the application; templates in them (`{{ run_id }}`) are rendered for each run."""
    python: str | None = None
    """Python of driver and executors; null is the daemon's."""


class SparkConfig(SparkParameters):
    submitter: Annotated[str, Field(min_length=1)] = "spark-submit"
    """How Spark is started: `spark-submit`, or the dotted path of a class on `plugins_dir`, whose options stand beside it."""
    warm: Annotated[int, Field(ge=0, le=MOST)] = 0
    """Drivers started ahead, as far as `settings.scheduler.warm_memory_mb` allows; each is used for one try. Not for `yarn` and `k8s` masters."""
    env: dict[str, SecretText] = Field(default_factory=dict)
    """Environment of the driver."""
    connections: tuple[ConnectionName, ...] = ()
    """Connections whose credentials the job's private context holds."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the application; those of `builtin:ingest` are checked."""

    @field_validator("files")
    @classmethod
    def _check_files(cls, files: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        return check_files(files, info.data.get("master"))

    @model_validator(mode="before")
    @classmethod
    def _check_deploy_mode(cls, section: Any) -> Any:
        return check_mode_key(section)

    @field_validator("warm")
    @classmethod
    def _check_warm(cls, warm: int, info: ValidationInfo) -> int:
        if warm and (hindrance := _hindrance_of_warm(info.data)):
            raise ValueError(f"{hindrance}; remove it")
        return warm

    @field_validator("options")
    @classmethod
    def _check_options(cls, options: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if info.data.get("application") == INGEST:
            try:
                checked = IngestOptions.model_validate(options, context=info.context)
            except ValidationError as error:
                raise misplaced(options, *sentences(error, IngestOptions, options)) from None
            return checked.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return options


def _hindrance_of_warm(spark: Mapping[str, Any]) -> str:
    """Why there are no warm drivers with this; '' when there may be."""
    if spark.get("submitter", "spark-submit") != "spark-submit":
        return "drivers are started ahead by `spark-submit` only"
    if not spark.get("master", "local").startswith(("local", "spark://")):
        return "drivers are started ahead for masters `local…` and `spark://…` only"
    if re.match("(?!file:)[A-Za-z][A-Za-z0-9+.-]+:", str(spark.get("application", "")).removeprefix(BUILTIN)):
        return "drivers are started ahead for applications on this machine only"
    return ""


def _task_id(validated: Mapping[str, Any]) -> str:
    stem = PurePosixPath(validated["spark"].application.removeprefix(BUILTIN)).stem
    return re.sub("[^A-Za-z0-9_.-]", "_", stem)[:250]


class JobConfig(Section):
    spark: SparkConfig
    """What to start."""
    task_id: Annotated[Name, Field(default_factory=_task_id)]
    """Name of its one task. Default: the application's stem."""
    schedule: ScheduleField = None
    """What starts a run: assets, aliases, a time; null starts it by hand only."""
    batch: BatchConfig = BatchConfig()
    """How events are gathered into runs."""
    inlets: ReferencesField = ()
    """Assets and `{alias: name}` the job reads."""
    outlets: ReferencesField = ()
    """Assets and `{alias: name}` the job writes; each asset gets an event when it succeeds."""
    max_active_runs: Annotated[int, Field(ge=1, le=MOST)] = 1
    """Most runs of this job at a time."""
    retries: Annotated[int, Field(ge=0, le=MOST)] = 0
    """Further tries after a failure."""
    retry_delay: Duration = timedelta(seconds=30)
    """Wait before the first retry; doubles up to 10m."""
    timeout: PositiveDuration | None = None
    """Longest time for one try."""
    deadline: PositiveDuration | None = None
    """Alert when the schedule's condition is met in part, and no more than that, for so long."""
    paused: bool = False
    """Start out paused."""
    catchup: bool = False
    """After a stop, run each time that was missed, not one for all."""

    @field_validator("batch")
    @classmethod
    def _check_mode(cls, batch: BatchConfig, info: ValidationInfo) -> BatchConfig:
        schedule = info.data.get("schedule")
        if batch.mode == "each" and schedule and needs_several(schedule.condition):
            hint = "`each` cannot go with a schedule that needs `all` of several: use `any`, or `mode: coalesce`"
            raise misplaced(batch, (("mode",), hint))
        return batch


_SHARED: Final = {"connections", "assets", "aliases", "jobs", "submitter_options"}
"""What processes with one database must agree on, beside some settings."""


class Configuration(Section):
    """Everything the YAML says, checked as a whole; the dictionaries are keyed by name (a job's is its dag_id)."""

    settings: Settings = Settings()
    connections: dict[Name, SerializeAsAny[BaseModel]] = Field(default_factory=dict)
    given_connections: dict[str, Any] = Field(default_factory=dict, repr=False, exclude=True)
    """As they were written, references replaced: for processes that open a connection of their own."""
    assets: dict[Name, AssetConfig] = Field(default_factory=dict)
    aliases: dict[Name, AliasConfig] = Field(default_factory=dict)
    jobs: dict[Name, JobConfig] = Field(default_factory=dict)
    submitter_options: dict[Name, SerializeAsAny[BaseModel]] = Field(default_factory=dict)
    """By job, of those whose submitter has any; in the YAML they stand in the job's `spark` section."""
    file: Path
    """The file or folder it was read from, as named by the user."""
    folder: Path
    """Absolute; relative paths started here."""
    environment: frozenset[str] = frozenset()
    """Names of the environment that it was read with."""
    secrets: frozenset[Path] = frozenset()
    """The files that it names by `${file:…}`."""
    read_as: dict[Path, tuple[int, int, int, int] | None] = Field(default_factory=dict)
    """All files that it was read from, as `config.sources.stamps` gives them; taken before each was read."""
    warnings: tuple[Problem, ...] = ()
    """Allowed, and still perhaps a mistake."""

    @property
    def watchers(self) -> dict[str, WatcherConfig]:
        """All assets' watchers by name."""
        return {name: watcher for asset in self.assets.values() for name, watcher in asset.watchers.items()}

    @cached_property
    def hash(self) -> str:
        """SHA-256 of what processes with one database must agree on; the same whatever the order of keys.

        Secrets and what belongs to one process or machine (home, addresses, logs, capacities) are left out, so this
        does not tell whether a reload changed anything: compare the configurations for that.
        """
        settings = self.settings.model_dump(mode="json", include={"store", "workers"}, fallback=str)
        if self.settings.airflow is not None:
            settings |= self.settings.model_dump(mode="json", include={"airflow": {"forward", "listen"}})
        return _digest([settings, self._shared()])

    @cached_property
    def definitions(self) -> dict[str, str]:
        """A short hash of each watcher's definition, by name: its connection is a part of it, secrets are none.

        Processes that know a watcher by one hash watch the same source in the same way.
        """
        shared = self._shared()
        return {
            name: _digest([watcher, shared["connections"].get(watcher["connection"])])[:16]
            for asset in shared["assets"].values()
            for name, watcher in asset["watchers"].items()
        }

    def _shared(self) -> dict[str, Any]:
        return self.model_dump(mode="json", include=_SHARED, fallback=str)


def _digest(content: Any) -> str:
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
