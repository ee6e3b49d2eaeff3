"""The `settings` section: how the daemon itself behaves. Field docstrings become docs/configuration.md."""

from __future__ import annotations

import re
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from config.durations import Duration, PositiveDuration

_SHORTEST_SECRET: Final = 32


class Section(BaseModel):
    """A mapping in the YAML: unknown keys are refused, and an error's text never holds what was written."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
        validate_default=True,  # so that a default that clashes with a given value is found, and default paths get a folder
    )


def _in_folder(path: Path, info: ValidationInfo) -> Path:
    return info.context.folder / path if info.context else path


LocalPath: TypeAlias = Annotated[Path, AfterValidator(_in_folder)]
"""Absolute once loaded; the YAML's relative paths start at its own folder."""

Days: TypeAlias = Annotated[int, Field(ge=0, le=36_500)]


def _check_dotted_path(path: str) -> str:
    first, *others = path.split(".")
    if not others or not all(part.isidentifier() for part in (first, *others)):
        raise ValueError("must be the dotted path of a class, such as `package.module.Class`")
    return path


def _check_address(address: str) -> str:
    if not address.startswith(("http://", "https://")):
        raise ValueError("must begin with `http://` or `https://`")
    return address


_UNITS: Final = {"": 1, "kB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}


def _parse_bytes(value: object) -> object:
    if isinstance(value, str) and (match := re.fullmatch("([0-9]{1,12})(kB|MB|GB|)", value)):
        return int(match[1]) * _UNITS[match[2]]
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError("must be a number of bytes such as `64kB`, `16MB`, `1GB` (powers of 1,000) or `65536`")


Bytes: TypeAlias = Annotated[
    int,
    BeforeValidator(_parse_bytes),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[0-9]{1,12}(kB|MB|GB)?$"}]}),
]
DottedPath: TypeAlias = Annotated[str, AfterValidator(_check_dotted_path)]
Address: TypeAlias = Annotated[str, AfterValidator(_check_address)]


def _check_database(url: SecretStr) -> SecretStr:
    if not url.get_secret_value().startswith(("postgresql+asyncpg://", "sqlite+aiosqlite://")):
        raise ValueError("must begin with `postgresql+asyncpg://` or `sqlite+aiosqlite://`; null is SQLite in `home`")
    return url


class DatabaseSettings(Section):
    url: Annotated[SecretStr, AfterValidator(_check_database)] | None = None
    """`postgresql+asyncpg://user:password@host/database`; null is SQLite in `<home>/watcher.db`."""


def _check_secret(secret: SecretStr) -> SecretStr:
    if len(secret.get_secret_value().encode()) < _SHORTEST_SECRET:
        raise ValueError(f"must have at least {_SHORTEST_SECRET} bytes: `openssl rand -hex 32` makes one")
    return secret


class ApiSettings(Section):
    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8795
    """Port to listen on; 0 takes any free one."""
    base_url: Address | None = None
    """Address under which people reach it, put before links."""
    auth: Literal["tokens", "none"] = "tokens"
    """`none` lets everybody in, and is refused with a host that others can reach."""
    secret: Annotated[SecretStr, AfterValidator(_check_secret)] | None = None
    """Signs the jobs' tokens, at least 32 bytes; null makes one in `home`. Processes that share a database share it."""

    @field_validator("auth")
    @classmethod
    def _check_auth(cls, auth: str, info: ValidationInfo) -> str:
        if auth == "none" and not _is_loopback(info.data.get("host", "localhost")):
            raise ValueError("`none` is for a loopback host only: set `auth: tokens`, or `host: 127.0.0.1`")
        return auth


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class StoreSettings(Section):
    backend: DottedPath = "store.metastore.MetastoreStoreBackend"
    """Dotted path of the class that keeps asset and task state."""
    options: Annotated[dict[str, Any], Field(repr=False)] = {}
    """Keyword arguments of the class."""
    default_retention_days: Days = 30
    """Task store only: days after the last write; 0 keeps for ever."""
    clear_on_success: bool = False
    """Task store only: wipe a task instance's keys when it succeeds."""
    state_cleanup_batch_size: Annotated[int, Field(ge=0)] = 0
    """Rows deleted in one transaction; 0 takes 5,000. SQLite always takes 1,000."""
    max_value_storage_bytes: Annotated[int, Field(ge=1)] = 65535
    """Longest value, as JSON; the API refuses more, a task's is logged."""
    history_retention_days: Days = 90
    """Days the history of store entries is kept."""
    event_retention_days: Days = 90
    """Days asset events are kept; never less than until they are consumed."""
    run_retention_days: Days = 90
    """Days finished runs are kept."""
    orphan_grace_days: Days = 30
    """Days the entries of an inactive asset are kept."""
    cleanup_interval: PositiveDuration = timedelta(hours=1)
    """Time between two clean-ups."""


class WorkerSettings(Section):
    state_store_backend: DottedPath | None = None
    """Dotted path of a class that stores values from inside the job, so that only references travel."""
    options: Annotated[dict[str, Any], Field(repr=False)] = {}
    """Keyword arguments of the class; `ObjectStorageStateBackend` has url, threshold_bytes, compression."""


class TriggerBatchSettings(Section):
    max_events: Annotated[int, Field(ge=1)] = 10_000
    """Most events of one batch of a trigger."""
    max_bytes: Annotated[Bytes, Field(ge=1_000)] = 16_000_000
    """Most bytes of one batch, as JSON: `16MB`."""


class IsolationSettings(Section):
    memory_mb: Annotated[int, Field(ge=64)] = 512
    """Memory of one trigger's process, in MB; one that takes more is ended."""


class TriggererSettings(Section):
    heartbeat: PositiveDuration = timedelta(seconds=5)
    """Time between two renewals of the lease."""
    lease: PositiveDuration = timedelta(seconds=15)
    """Time after which others take over the watchers of a silent process; longer than `heartbeat`."""
    capacity: Annotated[int, Field(ge=1)] = 10_000
    """Most watchers that this process hosts; what no triggerer has room for is left out, and named."""
    grace: Duration = timedelta(seconds=30)
    """Time to finish in when told to stop; what hangs longer is named in the log, and the process ends with exit code 1."""
    poll_timeout: PositiveDuration = timedelta(minutes=5)
    """Longest time for one batch of one poll, for making a trigger, and for its check."""
    batch: TriggerBatchSettings = TriggerBatchSettings()
    """How much a trigger may yield at once."""
    isolation: IsolationSettings = IsolationSettings()
    """Triggers in processes of their own: those with `isolation: process`."""

    @field_validator("lease")
    @classmethod
    def _check_lease(cls, lease: timedelta, info: ValidationInfo) -> timedelta:
        if lease <= info.data.get("heartbeat", timedelta(0)):
            raise ValueError(
                "`lease` must be longer than `heartbeat`, or each lease ends before it is renewed; three times is usual"
            )
        return lease


class SchedulerSettings(Section):
    parallelism: Annotated[int, Field(ge=1)] = 4
    """Most Spark applications at a time."""
    driver_memory_mb: Annotated[int, Field(ge=1)] = 550
    """Memory reckoned for each of them, in MB; by how much a job's `driver_memory` exceeds 512m comes on top."""
    memory_mb: Annotated[int, Field(ge=1)] | None = None
    """Memory for all of them, in MB; null is 60 % of the machine's, or of the container's limit."""
    cancel_jobs: bool = False
    """Stop the Spark applications together with the daemon, as `watcher run --cancel-jobs`; they start again with it."""


class LogSettings(Section):
    directory: LocalPath | None = None
    """Folder of the log files; null is `<home>/logs`. Several processes share one."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe level that is logged."""
    format: Literal["auto", "text", "json"] = "auto"
    """What stderr gets: text for people, or one JSON object per line. auto: text on a terminal, else JSON."""
    as_json: Annotated[bool | None, Field(alias="json")] = None
    """The older word: true is `format: json`, false `format: text`; not beside `format`."""
    retention_days: Days = 30
    """Days log files are kept."""
    max_file_mb: Annotated[int, Field(ge=1)] = 64
    """Size at which a watcher's log file is rotated, in MB."""

    @model_validator(mode="after")
    def _check_format(self) -> Self:
        if self.as_json is not None and "format" in self.model_fields_set:
            raise ValueError("`json` and `format` say the same; remove `json`")
        return self


class Settings(Section):
    home: LocalPath = Path(".watcher")
    """Folder of this process alone, on a local disk: run folders, identity, the embedded database."""
    database: DatabaseSettings = DatabaseSettings()
    """The metadata database; PostgreSQL is required for more than one process."""
    api: ApiSettings = ApiSettings()
    """REST API and web pages."""
    store: StoreSettings = StoreSettings()
    """Asset store, task store and what is kept how long."""
    workers: WorkerSettings = WorkerSettings()
    """Storage from inside the jobs, for credentials that must not leave their machines."""
    triggerer: TriggererSettings = TriggererSettings()
    """The process that hosts the watchers."""
    scheduler: SchedulerSettings = SchedulerSettings()
    """How much may run at a time."""
    logs: LogSettings = LogSettings()
    """Log files and stderr."""
    plugins_dir: LocalPath = Path("plugins")
    """Folder on the import path, for triggers and backends of your own."""
