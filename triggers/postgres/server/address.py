"""Where a watched PostgreSQL is and how to sign in: address, TLS, and a password that may change by itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    SecretStr,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)

from triggers.base import BaseConnection, JsonObject
from triggers.hosting import ChangingSecrets, revealed
from triggers.options import Duration
from triggers.shared.postgres.failures import PERCENT_ENCODED
from triggers.shared.postgres.passwords import POSTGRES_PORT, PasswordSupply, password_supply, rds_tokens

ENCRYPTED: Final = frozenset({"require", "verify-ca", "verify-full"})


def _in_folder(path: Path, info: ValidationInfo) -> Path:
    return info.context.folder / path if info.context else path


ConfiguredPath = Annotated[Path, AfterValidator(_in_folder)]


class ChangingPassword(BaseModel):
    """A place that knows the password of now: a file's first line, or what a command prints in its first line."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    file: ConfiguredPath | None = None
    command: tuple[str, ...] | None = Field(default=None, min_length=1)
    ttl: Duration = timedelta(minutes=5)

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.file is None) == (self.command is None):
            raise ValueError("give either a file or a command")
        if not self.ttl:
            raise ValueError("ttl must be longer than 0s")
        return self


def _form_of_password(value: object) -> str:
    return "place" if isinstance(value, Mapping | ChangingPassword) else "text"


class PostgresAddress(BaseConnection, ChangingSecrets):
    """The part of a connection that says where its server is."""

    dsn: SecretStr | None = None
    host: str | None = None
    port: int | None = Field(default=None, ge=1, le=65535)
    database: str | None = None
    user: str | None = None
    password: (
        Annotated[
            Annotated[SecretStr, Tag("text")] | Annotated[ChangingPassword, Tag("place")],
            Discriminator(_form_of_password),
        ]
        | None
    ) = None
    iam: bool = False
    """Whether the password is a token of Amazon RDS, made with the AWS credentials of this process."""
    sslmode: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] | None = None
    sslrootcert: ConfiguredPath | None = None
    sslcert: ConfiguredPath | None = None
    sslkey: ConfiguredPath | None = None

    @field_validator("dsn")
    @classmethod
    def _readable(cls, dsn: SecretStr | None) -> SecretStr | None:
        if dsn is not None and not dsn.get_secret_value().startswith(("postgresql://", "postgres://")):
            raise ValueError("write the dsn as postgresql://user:password@host:5432/database")
        if dsn is not None and (_is_cut_in_its_password(dsn.get_secret_value()) or _is_no_url(dsn.get_secret_value())):
            raise ValueError(
                f"the dsn's password contains a character that ends the address; {PERCENT_ENCODED}, or write host, database, "
                "user and password as keys of their own"
            )
        return dsn

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        parts = {"host", "port", "database", "user", "password"} & self.model_fields_set
        if isinstance(self.password, ChangingPassword):
            parts.discard("password")
        if self.dsn is not None and parts:
            raise ValueError(f"give either dsn or {', '.join(sorted(parts))}, not both")
        if self.dsn is None and self.host is None:
            raise ValueError("give a dsn, or at least a host")
        if (self.sslcert is None) != (self.sslkey is None):
            raise ValueError("give sslcert and sslkey together")
        return self

    @model_validator(mode="after")
    def _token_needs_tls(self) -> Self:
        if not self.iam:
            return self
        if self.password is not None:
            raise ValueError("give either password or iam, not both")
        host, _, user = self._signer
        if not (host and user):
            raise ValueError("iam needs one host and a user, because a token is valid for these alone")
        if self._tls_mode not in ENCRYPTED:
            raise ValueError("iam needs sslmode require, verify-ca or verify-full, because a token is sent as it is")
        return self

    @cached_property
    def passwords(self) -> PasswordSupply | None:
        """What knows the password of now; None if the password is a part of the configuration."""
        if self.iam:
            host, port, user = self._signer
            return rds_tokens(host or "", port, user or "")
        if isinstance(self.password, ChangingPassword):
            place = self.password
            return password_supply(place.file, place.command, place.ttl.total_seconds())
        return None

    @property
    def address(self) -> Mapping[str, Any]:
        """The address for asyncpg, without a password that changes."""
        fixed = self.password.get_secret_value() if isinstance(self.password, SecretStr) else None
        parts = {
            "dsn": self._dsn_with_tls(),
            "host": self.host,
            "port": self.port,
            "database": self.database,
            "user": self.user,
            "password": fixed,
        }
        return {name: value for name, value in parts.items() if value is not None}

    @property
    def has_changing_secrets(self) -> bool:
        return self.iam or isinstance(self.password, ChangingPassword)

    def reveal_to_jobs(self) -> JsonObject:
        """Return the fields that are set, as a job's libraries know them; without a password that changes."""
        fields = self.model_dump(exclude_none=True, exclude={"iam"})
        if self.has_changing_secrets:
            fields.pop("password", None)
        if self.iam:
            fields["sslmode"] = self._tls_mode
        shown: JsonObject = revealed(fields)
        return shown

    async def reveal_now(self, *, anew: bool = False) -> JsonObject:
        shown = dict(self.reveal_to_jobs())
        if self.passwords is None:
            return shown
        password = await self.passwords.current(anew=anew)
        if self.dsn is not None:
            return {**shown, "dsn": _with_password(self.dsn.get_secret_value(), password)}
        return {**shown, "password": password}

    @property
    def place(self) -> str:
        """Host and port, as configured."""
        if self.dsn is None:
            return f"{self.host}:{self.port or POSTGRES_PORT}"
        where = urlsplit(self.dsn.get_secret_value()).netloc.rpartition("@")[2]
        return where if ":" in where.rpartition("]")[2] else f"{where}:{POSTGRES_PORT}"

    def _dsn_with_tls(self) -> str | None:
        """Return the dsn with what this connection says about TLS; asyncpg takes files from there alone."""
        files = {"sslrootcert": self.sslrootcert, "sslcert": self.sslcert, "sslkey": self.sslkey}
        mode = self._tls_mode if self.iam else self.sslmode
        query = {name: str(value) for name, value in {"sslmode": mode, **files}.items() if value is not None}
        if not query:
            return None if self.dsn is None else self.dsn.get_secret_value()
        parts = urlsplit("postgresql://" if self.dsn is None else self.dsn.get_secret_value())
        return urlunsplit(parts._replace(query=urlencode({**dict(parse_qsl(parts.query)), **query}, quote_via=quote)))

    @property
    def _signer(self) -> tuple[str | None, int | None, str | None]:
        """Host, port and user: None where the address has not exactly one."""
        if self.dsn is None:
            return self.host, self.port, self.user
        parts = urlsplit(self.dsn.get_secret_value())
        if "," in parts.netloc:
            return None, None, None
        return parts.hostname, parts.port, None if parts.username is None else unquote(parts.username)

    @property
    def _tls_mode(self) -> str:
        """The mode in force; a token needs one that encrypts, which is its default."""
        of_dsn = {} if self.dsn is None else dict(parse_qsl(urlsplit(self.dsn.get_secret_value()).query))
        return self.sslmode or of_dsn.get("sslmode") or "require"


def _is_cut_in_its_password(dsn: str) -> bool:
    """Whether the password has a character that belongs to no password of an address.

    The host begins only behind a `/`, `?` or `#` then, or there are two `@` before these, of which the driver takes the first.
    """
    network, *behind = re.split("[/?#]", dsn.partition("://")[2], maxsplit=1)
    before, at, after = "".join(behind).partition("@")
    if network.count("@") > 1:
        return True
    if not at or ":" not in network:
        return False
    if "=" in before:  # a query
        return "@" not in network and not re.fullmatch(r"(?:\[.*\]|[^:]*):?[0-9]*", network.rpartition(",")[2])
    return "@" not in network or "@" in after or "/" in after


def _is_no_url(dsn: str) -> bool:
    """Whether a bracket in a password makes the address unreadable."""
    try:
        urlsplit(dsn)
    except ValueError:
        return True
    return False


def _with_password(dsn: str, password: str) -> str:
    parts = urlsplit(dsn)
    who, at, where = parts.netloc.rpartition("@")
    user = who.partition(":")[0] if at else ""
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{where}"))
