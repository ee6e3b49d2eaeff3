"""The `settings` section: how the daemon itself behaves. Field docstrings become docs/configuration.md."""

from __future__ import annotations

import re
from datetime import timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from config.alerts import AlertConfig
from config.durations import Duration, PositiveDuration
from config.names import Name
from config.section import MOST, Section

_SHORTEST_SECRET: Final = 32
_HIGHEST_PORT: Final = 65_535


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


_PORT: Final = re.compile(r"[^:]+://(?:[^:/]*(?::[^@]*)?@)?(?:\[[^/?]+\]|[^:/?]*)(?::([^/?]*))?")
"""SQLAlchemy's rules for an address: importing it takes longer than many a command."""


def _check_database(url: SecretStr) -> SecretStr:
    if not url.get_secret_value().startswith(("postgresql+asyncpg://", "sqlite+aiosqlite://")):
        raise ValueError("must begin with `postgresql+asyncpg://` or `sqlite+aiosqlite://`; null is SQLite in `home`")
    port = parts[1] if (parts := _PORT.match(url.get_secret_value())) else None
    if port is not None and not (re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) <= _HIGHEST_PORT):
        raise ValueError(
            f"names no port from 1 to {_HIGHEST_PORT} behind its host; write `@` in a user or password as `%40`, `:` as `%3A`"
        )
    return url


class DatabaseSettings(Section):
    url: Annotated[SecretStr, AfterValidator(_check_database)] | None = None
    """`postgresql+asyncpg://user:password@host/database`; null is SQLite in `<home>/watcher.db`."""


def _as_list(secrets: object) -> object:
    return secrets if isinstance(secrets, list | tuple) else (secrets,)


def _check_secrets(secrets: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
    if any(len(secret.get_secret_value().encode()) < _SHORTEST_SECRET for secret in secrets):
        each = "" if len(secrets) == 1 else "each "
        raise ValueError(f"{each}must have at least {_SHORTEST_SECRET} bytes: `openssl rand -hex 32` makes one")
    return secrets


Secrets: TypeAlias = Annotated[
    tuple[SecretStr, ...],
    BeforeValidator(_as_list),
    Field(min_length=1),
    AfterValidator(_check_secrets),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]


class LimitSettings(Section):
    header_bytes: Annotated[Bytes, Field(ge=1_000)] = 64_000
    """Most bytes of a request line and its headers together: `64kB`."""
    body_bytes: Annotated[Bytes, Field(ge=1)] = 1_000_000
    """Most bytes of a body from people and tools, beside `max_value_storage_bytes`."""
    execution_body_bytes: Annotated[Bytes, Field(ge=1)] = 16_000_000
    """Most bytes of a body from a job, whose values have no other limit."""
    header_timeout: PositiveDuration = timedelta(seconds=10)
    """Longest time for a request line with its headers."""
    body_timeout: PositiveDuration = timedelta(seconds=60)
    """Longest time for a body."""
    idle_timeout: PositiveDuration = timedelta(seconds=75)
    """Longest silence between two requests of a connection, and of a client that does not read its answer."""
    connections: Annotated[int, Field(ge=1, le=MOST)] = 500
    """Most connections; the one that has waited longest for its client is closed for a new one."""
    per_address: Annotated[int, Field(ge=1, le=MOST)] = 100
    """Most connections from one address (IPv6: from one /64), but `trusted_proxies`."""


def _check_network(network: str) -> str:
    try:
        return str(ip_network(network))
    except ValueError:
        raise ValueError("must be an address or a network such as `10.1.0.0/16`, without host bits") from None


def _check_host(host: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]", host):
        raise ValueError("must be a name or an address as in a URL, without port; there is no `*`")
    return host.lower()


class ApiSettings(Section):
    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8795
    """Port to listen on; 0 takes any free one."""
    base_url: Address | None = None
    """Address under which people reach it, put before links."""
    auth: Literal["tokens", "none"] = "tokens"
    """`none` lets everybody in, and is refused with a host that others can reach."""
    secret: Secrets | None = None
    """Signs the jobs' tokens, at least 32 bytes; null makes one in `home`. Processes that share a database share it. Of a
    list the first signs, and all verify: `[new, old]` while tokens of the old one live."""
    hosts: tuple[Annotated[str, AfterValidator(_check_host)], ...] | None = None
    """Names in `Host` under which a browser may use it without a token; null: the loopback's, `host`, and `base_url`'s."""
    trusted_proxies: tuple[Annotated[str, AfterValidator(_check_network)], ...] = ()
    """Addresses and networks whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed."""
    limits: LimitSettings = LimitSettings()
    """How much a client may send, how long it may take, and how many there may be."""

    @field_validator("auth")
    @classmethod
    def _check_auth(cls, auth: str, info: ValidationInfo) -> str:
        if auth == "none" and not _is_loopback(info.data.get("host", "localhost")):
            raise ValueError("`none` is for a loopback host only: set `auth: tokens`, or `host: 127.0.0.1`")
        return auth

    @property
    def is_loopback(self) -> bool:
        """Whether this machine alone can reach it."""
        return _is_loopback(self.host)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class StoreSettings(Section):
    backend: DottedPath = "store.metastore.MetastoreStoreBackend"
    """Dotted path of the class that keeps asset and task state."""
    options: dict[str, Any] = Field(default_factory=dict, repr=False)
    """Keyword arguments of the class."""
    default_retention_days: Days = 30
    """Task store only: days after the last write; 0 keeps for ever."""
    clear_on_success: bool = False
    """Task store only: wipe a task instance's keys when it succeeds."""
    state_cleanup_batch_size: Annotated[int, Field(ge=0, le=MOST)] = 0
    """Rows deleted in one transaction; 0 takes 5,000. SQLite always takes 1,000."""
    max_value_storage_bytes: Annotated[int, Field(ge=1, le=MOST)] = 65535
    """Longest value, as JSON; the API refuses more, a task's is logged."""
    history_retention_days: Days = 90
    """Days the history of store entries is kept."""
    event_retention_days: Days = 90
    """Days asset events are kept; never less than until they are consumed."""
    run_retention_days: Days = 90
    """Days finished runs are kept, and the folders of their tries."""
    orphan_grace_days: Days = 30
    """Days the entries of an inactive asset are kept."""
    cleanup_interval: PositiveDuration = timedelta(hours=1)
    """Time between two clean-ups."""


class WorkerSettings(Section):
    state_store_backend: DottedPath | None = None
    """Dotted path of a class that stores values from inside the job, so that only references travel."""
    options: dict[str, Any] = Field(default_factory=dict, repr=False)
    """Keyword arguments of the class; `ObjectStorageStateBackend` has url, threshold_bytes, compression."""


class TriggerBatchSettings(Section):
    max_events: Annotated[int, Field(ge=1, le=MOST)] = 10_000
    """Most events of one batch of a trigger."""
    max_bytes: Annotated[Bytes, Field(ge=1_000)] = 16_000_000
    """Most bytes of one batch, as JSON: `16MB`."""


class IsolationSettings(Section):
    memory_mb: Annotated[int, Field(ge=64, le=MOST)] = 512
    """Memory of one trigger's process, in MB; one that takes more is ended."""


class TriggererSettings(Section):
    heartbeat: PositiveDuration = timedelta(seconds=5)
    """Time between two renewals of the lease."""
    lease: PositiveDuration = timedelta(seconds=15)
    """Time after which others take over the watchers of a silent process; longer than `heartbeat`."""
    capacity: Annotated[int, Field(ge=1, le=MOST)] = 10_000
    """Most watchers that this process hosts; what no triggerer has room for is left out, and named."""
    grace: Duration = timedelta(seconds=30)
    """Time to finish in when told to stop; what hangs longer is named in the log, and the process ends with exit code 1."""
    poll_timeout: PositiveDuration = timedelta(minutes=5)
    """Longest time for one batch of one poll, for making a trigger, for its check, and for a dry run."""
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
    parallelism: Annotated[int, Field(ge=1, le=MOST)] = 4
    """Most Spark applications at a time."""
    driver_memory_mb: Annotated[int, Field(ge=1, le=MOST)] = 550
    """Memory reckoned for each of them, in MB; by how much a job's `driver_memory` exceeds 512m comes on top."""
    memory_mb: Annotated[int, Field(ge=1, le=MOST)] | None = None
    """Memory for all of them, in MB; null is 60 % of the machine's, or of the container's limit."""
    warm_memory_mb: Annotated[int, Field(ge=0, le=MOST)] | None = None
    """Of it, what drivers may take that wait for their try (`spark.warm`), in MB; null is half of it."""
    cancel_jobs: bool = False
    """Stop the Spark applications together with the daemon, as `watcher run --cancel-jobs`; they start again with it."""
    spark_history_url: Address | None = None
    """Address of Spark's history server, for the links of tries; null shows none."""


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
    max_file_mb: Annotated[int, Field(ge=1, le=MOST)] = 64
    """Size at which a watcher's log file is rotated, in MB."""

    @model_validator(mode="after")
    def _check_format(self) -> Self:
        if self.as_json is not None and "format" in self.model_fields_set:
            raise ValueError("`json` and `format` say the same; remove `json`")
        return self


TheirAsset: TypeAlias = Annotated[str, Field(min_length=1, max_length=1500)]


class AirflowSettings(Section):
    base_url: Address
    """Where its API server is reached, without `/api/v2`."""
    token: SecretStr | None = None
    """A token of Airflow's; or `user` and `password`."""
    user: str | None = None
    """Who signs in at `/auth/token`, and again when a token has ended."""
    password: SecretStr | None = None
    """The user's."""
    forward: dict[Name, TheirAsset] = Field(default_factory=dict)
    """Our assets whose events become Airflow's, each with the name or uri of Airflow's asset."""
    listen: dict[TheirAsset, Name] = Field(default_factory=dict)
    """Airflow's assets, by name or uri, whose events become those of an asset of ours."""
    lateness: PositiveDuration = timedelta(minutes=10)
    """How long after its timestamp an event of Airflow's may become visible; also by how much its clock may differ."""
    poll_interval: PositiveDuration = timedelta(seconds=5)
    """Time between two looks at the events of an asset in `listen`."""
    timeout: PositiveDuration = timedelta(seconds=10)
    """Longest time for one request; what was not answered by then is looked up before it is sent again."""

    @model_validator(mode="after")
    def _check_sign_in(self) -> Self:
        by_token, by_user = self.token is not None, {self.user is not None, self.password is not None}
        if by_user != {not by_token}:
            raise ValueError("needs a `token`, or a `user` and a `password`")
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
    airflow: AirflowSettings | None = None
    """A neighbouring Airflow: events go there, and come from there."""
    alerts: tuple[AlertConfig, ...] = ()
    """A list of who is told of what, each once per change; see docs/alerts.md."""
    plugins_dir: LocalPath = Path("plugins")
    """Folder on the import path, for triggers and backends of your own."""
