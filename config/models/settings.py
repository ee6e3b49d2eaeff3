"""The `settings` section: how the daemon itself behaves."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Protocol, Self, TypeAlias, TypeVar
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, Field, SecretStr, ValidationInfo, field_validator, model_validator

from config.errors import KeyPath
from config.models.api_settings import ApiSettings
from config.models.values import Address, Bytes, Days, DottedPath, Duration, LocalPath, PositiveDuration
from config.section import LARGEST_INT, Section

if TYPE_CHECKING:
    from config.models.assets import AssetConfig
    from config.models.jobs import JobConfig

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
    try:
        network = urlsplit(url.get_secret_value()).netloc
    except ValueError:
        raise ValueError("has a bracket in its user or password; write `[` as `%5B`, `]` as `%5D`") from None
    if network.count("@") > 1 or _is_cut(url.get_secret_value()):
        raise ValueError("has an `@` in its user or password; write it as `%40`, and `%` as `%25`")
    return url


def _is_cut(url: str) -> bool:
    """Whether a password has an `@`, and behind it a `/` that ends the address, so that what follows counts as the database."""
    behind = url.partition("@")[2].partition("?")[0].partition("/")[2]
    return url.startswith("postgresql") and "/" in behind.partition("@")[2]


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
    plugins_dir: LocalPath = Path("plugins")
    """Folder on the import path, for triggers and backends of your own."""
    features: tuple[str, ...] = ()
    """Names of installed features that are not the daemon's own; each brings its own keys of `settings`."""

    parts: ClassVar[tuple[type[SettingsPart], ...]] = ()
    """What features have added to this class."""

    def part(self, part: type[PartT]) -> PartT:
        """Return these settings with the keys that a feature added. Raises `LookupError` if they were read without it."""
        if not isinstance(self, part):
            raise LookupError(  # noqa: TRY004  it is absent, not of another type
                f"the settings were read without {part.__name__}; read them with the features that are installed"
            )
        return self


class SettingsPart(Section):
    """Keys of `settings` that a feature adds, each with a default. The class methods get the settings as a whole."""

    shared: ClassVar[Mapping[str, frozenset[str]]] = {}
    """The members of each key on which processes with one database must agree."""

    @classmethod
    def is_configured(cls, settings: Settings) -> bool:  # noqa: ARG003  see overrides
        """Whether the feature has anything to do. Otherwise none of its services, submitters and hooks is on the way."""
        return True

    @classmethod
    def faults(cls, settings: Settings, entries: NamedEntries) -> Iterable[tuple[KeyPath, str]]:  # noqa: ARG003  see overrides
        """Yield a place in the document and a sentence for each entry that does not go together with these keys."""
        return ()

    @classmethod
    def exchanges(cls, settings: Settings) -> Mapping[str, Exchange]:  # noqa: ARG003  see overrides
        """Return the systems that get events of our assets and may answer with others, by a name for people."""
        return {}


PartT = TypeVar("PartT", bound=SettingsPart)


class NamedEntries(Protocol):
    """The sections of a document by name. An entry that has a problem itself is None."""

    @property
    def assets(self) -> Mapping[str, AssetConfig | None]: ...

    @property
    def jobs(self) -> Mapping[str, JobConfig | None]: ...


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """The assets whose events are sent to another system, and those that get events from there."""

    sent: frozenset[str]
    received: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class KnownSettings:
    """The keys that `settings` may have. `unavailable` are features that were named and cannot be used, each with a sentence."""

    parts: tuple[type[SettingsPart], ...] = ()
    unavailable: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def model(self) -> type[Settings]:
        """The class of settings with the keys of all parts. Raises `ValueError` if two parts have the same key."""
        owners: dict[str, type[Section]] = dict.fromkeys(Settings.model_fields, Settings)
        for part in self.parts:
            for name in part.model_fields:
                if (owner := owners.setdefault(name, part)) is not part:
                    raise ValueError(
                        f"{part.__module__} and {owner.__module__} both add `settings.{name}`; leave one of the features out"
                    )
        merged: type[Settings] = types.new_class(
            "Settings",
            (Settings, *self.parts),
            exec_body=lambda body: body.update(__module__=__name__, parts=self.parts),
        )
        return merged

    def without_unavailable(self, given: Any) -> Any:
        """Return the section without the keys of features that cannot be used: each is named as its feature is."""
        if not isinstance(given, dict):
            return given
        left_out = {name.replace("-", "_") for name in self.unavailable}
        return {key: value for key, value in given.items() if key not in left_out}


SettingsOf: TypeAlias = Callable[[Sequence[str]], KnownSettings]
"""Returns the keys that `settings` may have with these installed features. Raises `UnknownClass` for one that is not installed."""
