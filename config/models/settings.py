"""The `settings` section: how the daemon itself behaves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    SecretStr,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)

from config.models.alerts import AlertConfig
from config.models.api_settings import ApiSettings
from config.models.kubernetes import KubernetesSettings
from config.models.values import Address, Bytes, Days, DottedPath, Duration, LocalPath, PositiveDuration
from config.names import Name
from config.section import LARGEST_INT, Section

_HIGHEST_PORT: Final = 65_535

_PORT: Final = re.compile(r"[^:]+://(?:[^:/]*(?::[^@]*)?@)?(?:\[[^/?]+\]|[^:/?]*)(?::([^/?]*))?")
"""SQLAlchemy's rules for a URL, repeated here because importing SQLAlchemy takes longer than many commands."""


def _check_database(url: SecretStr) -> SecretStr:
    if not url.get_secret_value().startswith(("postgresql+asyncpg://", "sqlite+aiosqlite://")):
        raise ValueError("must begin with `postgresql+asyncpg://` or `sqlite+aiosqlite://`; null is SQLite in `home`")
    port = parts[1] if (parts := _PORT.match(url.get_secret_value())) else None
    if port is not None and not (re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) <= _HIGHEST_PORT):
        raise ValueError(
            f"has no port from 1 to {_HIGHEST_PORT} after its host; write `@` in a user or password as `%40`, `:` as `%3A`"
        )
    if urlsplit(url.get_secret_value()).netloc.count("@") > 1:
        raise ValueError("has an `@` in its user or password; write it as `%40`, and `%` as `%25`")
    return url


SslMode: TypeAlias = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]
ENCRYPTED: Final = ("require", "verify-ca", "verify-full")


class PasswordSettings(Section):
    """A place that knows the password of now."""

    file: LocalPath | None = None
    """A file whose first line is the password. It is read for each new session. Give either it or `command`."""
    command: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Program and arguments, run without a shell for at most 10 s. The first line that it prints is the password."""
    ttl: PositiveDuration = timedelta(minutes=5)
    """How long a password of `command` is used for new sessions, unless the server refuses it."""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.file is None) == (self.command is None):
            raise ValueError("needs either a `file` or a `command`")
        return self


class DatabaseSettings(Section):
    url: Annotated[SecretStr, AfterValidator(_check_database)] | None = None
    """`postgresql+asyncpg://user:password@host/database`; null is SQLite in `<home>/watcher.db`."""
    password: PasswordSettings | None = None
    """The password of PostgreSQL, in place of one in `url`, where it changes while the daemon runs."""
    iam: bool = False
    """Sign in to Amazon RDS or Aurora with a token, made with the AWS credentials of this process. It needs TLS."""
    sslmode: SslMode | None = None
    """How PostgreSQL's connections are encrypted: `disable`, `allow`, `prefer`, `require`, `verify-ca` or `verify-full`."""
    sslrootcert: LocalPath | None = None
    """A file with the certificates that may have signed the server's."""
    sslcert: LocalPath | None = None
    """A file with this client's certificate."""
    sslkey: LocalPath | None = None
    """A file with the key of `sslcert`."""

    @model_validator(mode="after")
    def _of_postgres(self) -> Self:
        given = self.model_fields_set - {"url"}
        if given and (self.url is None or not self.url.get_secret_value().startswith("postgresql")):
            raise ValueError(f"has `{min(given)}` but no `url` of a PostgreSQL")
        if (self.sslcert is None) != (self.sslkey is None):
            raise ValueError("needs `sslcert` and `sslkey` together")
        return self

    @model_validator(mode="after")
    def _token_needs_tls(self) -> Self:
        if not self.iam or self.url is None:
            return self
        if self.password is not None:
            raise ValueError("has `password` and `iam`; give one of them")
        url = urlsplit(self.url.get_secret_value())
        query = dict(parse_qsl(url.query))
        if not (url.hostname and url.username):
            raise ValueError("has `iam`, but its `url` names no host or no user; a token is valid for one of each")
        if (self.sslmode or query.get("sslmode") or query.get("ssl") or "require") not in ENCRYPTED:
            raise ValueError(f"has `iam`, and a token is sent as it is; set `sslmode` to one of {', '.join(ENCRYPTED)}")
        return self


class StoreSettings(Section):
    backend: DottedPath = "store.metastore.MetastoreStoreBackend"
    """Dotted path of the class that keeps the state of assets and tasks."""
    options: dict[str, Any] = Field(default_factory=dict, repr=False)
    """Keyword arguments of the class."""
    default_retention_days: Days = 30
    """Task store only: days an entry is kept after its last write; 0 keeps it for ever."""
    clear_on_success: bool = False
    """Task store only: delete a task instance's entries when it succeeds."""
    state_cleanup_batch_size: Annotated[int, Field(ge=0, le=LARGEST_INT)] = 0
    """Rows deleted in one transaction; 0 takes 5,000. SQLite always takes 1,000."""
    max_value_storage_bytes: Annotated[int, Field(ge=1, le=LARGEST_INT)] = 65535
    """Maximum number of bytes in a value, as JSON. The API refuses a longer one; a longer one from a task is kept, and logged."""
    history_retention_days: Days = 90
    """Days the history of store entries is kept."""
    event_retention_days: Days = 90
    """Days asset events are kept. An event that is not consumed yet is always kept."""
    run_retention_days: Days = 90
    """Days finished runs and the folders of their tries are kept."""
    orphan_grace_days: Days = 30
    """Days the entries of an inactive asset are kept."""
    cleanup_interval: PositiveDuration = timedelta(hours=1)
    """Time between two clean-ups."""


class WorkerSettings(Section):
    state_store_backend: DottedPath | None = None
    """Dotted path of a class that stores values from inside the job. Only references to them are sent to the daemon."""
    options: dict[str, Any] = Field(default_factory=dict, repr=False)
    """Keyword arguments of the class; those of `ObjectStorageStateBackend` are url, threshold_bytes, compression."""


class TriggerBatchSettings(Section):
    max_events: Annotated[int, Field(ge=1, le=LARGEST_INT)] = 10_000
    """Maximum number of events in one batch of a trigger."""
    max_bytes: Annotated[Bytes, Field(ge=1_000)] = 16_000_000
    """Maximum number of bytes in one batch, as JSON: `16MB`."""


class IsolationSettings(Section):
    memory_mb: Annotated[int, Field(ge=64, le=LARGEST_INT)] = 512
    """Maximum memory of one trigger's process, in MB. A process that takes more is ended."""


class TriggererSettings(Section):
    heartbeat: PositiveDuration = timedelta(seconds=5)
    """Time between two renewals of the lease."""
    lease: PositiveDuration = timedelta(seconds=15)
    """Time after which other processes take over the watchers of a silent one. It must be longer than `heartbeat`."""
    capacity: Annotated[int, Field(ge=1, le=LARGEST_INT)] = 10_000
    """Maximum number of watchers that this process hosts. A watcher that no triggerer has room for stays unassigned and is reported."""
    grace: Duration = timedelta(seconds=30)
    """Time to finish after a request to stop. What takes longer is named in the log, and the process ends with exit code 1."""
    poll_timeout: PositiveDuration = timedelta(minutes=5)
    """Maximum time for one batch of one poll, for creating a trigger, for its check, and for a dry run."""
    batch: TriggerBatchSettings = TriggerBatchSettings()
    """How much a trigger may yield at once."""
    isolation: IsolationSettings = IsolationSettings()
    """Limits of triggers that run in a process of their own (`isolation: process`)."""

    @field_validator("lease")
    @classmethod
    def _check_lease(cls, lease: timedelta, info: ValidationInfo) -> timedelta:
        if lease <= info.data.get("heartbeat", timedelta(0)):
            raise ValueError(
                "`lease` must be longer than `heartbeat`, or each lease ends before it is renewed; three times is usual"
            )
        return lease


class SchedulerSettings(Section):
    parallelism: Annotated[int, Field(ge=1, le=LARGEST_INT)] = 4
    """Maximum number of Spark applications at a time."""
    driver_memory_mb: Annotated[int, Field(ge=1, le=LARGEST_INT)] = 550
    """Memory planned for each Spark application, in MB. The amount by which a job's `driver_memory` exceeds 512m is added."""
    memory_mb: Annotated[int, Field(ge=1, le=LARGEST_INT)] | None = None
    """Memory for all Spark applications, in MB; null is 60 % of the machine's memory, or of the container's limit."""
    warm_memory_mb: Annotated[int, Field(ge=0, le=LARGEST_INT)] | None = None
    """The part of `memory_mb` for drivers that wait for a try (`spark.warm`), in MB; null is half of it."""
    cancel_jobs: bool = False
    """Stop the Spark applications together with the daemon, like `watcher run --cancel-jobs`. They start again with the daemon."""
    spark_history_url: Address | None = None
    """Address of Spark's history server, for links to it from tries; null shows no links."""


class LogSettings(Section):
    directory: LocalPath | None = None
    """Folder of the log files; null is `<home>/logs`. Several processes may share one."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is logged."""
    format: Literal["auto", "text", "json"] = "auto"
    """Format of stderr: `text` for people, or `json`, one object per line. `auto` is text on a terminal, else JSON."""
    as_json: Annotated[bool | None, Field(alias="json")] = None
    """The older key for `format`: true is `json`, false is `text`. It cannot be set together with `format`."""
    retention_days: Days = 30
    """Days log files are kept."""
    max_file_mb: Annotated[int, Field(ge=1, le=LARGEST_INT)] = 64
    """Size at which a watcher's log file is rotated, in MB."""

    @model_validator(mode="after")
    def _check_format(self) -> Self:
        if self.as_json is not None and "format" in self.model_fields_set:
            raise ValueError("`json` and `format` say the same; remove `json`")
        return self


TheirAsset: TypeAlias = Annotated[str, Field(min_length=1, max_length=1500)]


class ForwardConfig(Section):
    asset: TheirAsset
    """Airflow's asset, by name or uri."""
    partition_key: bool = False
    """Whether an event is sent with its partition key; Airflow knows them from 3.2 on."""


def _form_of_forward(given: object) -> str:
    return "long" if isinstance(given, dict | ForwardConfig) else "short"


class AirflowSettings(Section):
    base_url: Address
    """Address of its API server, without `/api/v2`."""
    token: SecretStr | None = None
    """A token for Airflow's API. Give either a token, or `user` and `password`."""
    user: str | None = None
    """Name of the user that signs in at `/auth/token`, and signs in again when the token has expired."""
    password: SecretStr | None = None
    """Password of the user."""
    forward: dict[
        Name,
        Annotated[
            Annotated[TheirAsset, Tag("short")] | Annotated[ForwardConfig, Tag("long")], Discriminator(_form_of_forward)
        ],
    ] = Field(default_factory=dict)
    """Our assets whose events are sent to Airflow, each with the name or uri of Airflow's asset, or with `{asset: THEIRS, partition_key: true}`: then its events keep their partition keys there (Airflow 3.2 and later)."""
    listen: dict[TheirAsset, Name] = Field(default_factory=dict)
    """Airflow's assets, by name or uri, each with the asset of ours that gets their events."""
    lateness: PositiveDuration = timedelta(minutes=10)
    """How long after its timestamp one of Airflow's events may become visible. It also bounds how far its clock may differ."""
    poll_interval: PositiveDuration = timedelta(seconds=5)
    """Time between two polls of the events of an asset in `listen`."""
    timeout: PositiveDuration = timedelta(seconds=10)
    """Maximum time for one request. An event whose request was not answered is looked up before it is sent again."""

    @model_validator(mode="after")
    def _check_sign_in(self) -> Self:
        by_token, by_user = self.token is not None, {self.user is not None, self.password is not None}
        if by_user != {not by_token}:
            raise ValueError("needs a `token`, or a `user` and a `password`")
        return self

    @property
    def forwards(self) -> Mapping[str, ForwardConfig]:
        """The entries of `forward` in their long form."""
        return {
            name: ForwardConfig(asset=given) if isinstance(given, str) else given
            for name, given in self.forward.items()
        }


class Settings(Section):
    home: LocalPath = Path(".watcher")
    """Folder of this process alone, on a local disk: run folders, identity, the embedded database."""
    database: DatabaseSettings = DatabaseSettings()
    """The metadata database; PostgreSQL is required for more than one process."""
    api: ApiSettings = ApiSettings()
    """REST API and web pages."""
    store: StoreSettings = StoreSettings()
    """The asset store, the task store, and how long data is kept."""
    workers: WorkerSettings = WorkerSettings()
    """Storage that jobs use directly, for credentials that must not leave their machines."""
    triggerer: TriggererSettings = TriggererSettings()
    """The process that hosts the watchers."""
    scheduler: SchedulerSettings = SchedulerSettings()
    """How much may run at a time."""
    logs: LogSettings = LogSettings()
    """Log files and stderr."""
    kubernetes: KubernetesSettings | None = None
    """The cluster and the namespace of drivers that run as pods (`submitter: kubernetes`); see docs/kubernetes.md."""
    airflow: AirflowSettings | None = None
    """A neighbouring Airflow, which events are sent to and read from."""
    alerts: tuple[AlertConfig, ...] = ()
    """Which alerts are sent where, each once per change; see docs/alerts.md."""
    plugins_dir: LocalPath = Path("plugins")
    """Folder on the import path, for triggers and backends of your own."""
