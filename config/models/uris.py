"""Asset URIs by Airflow's rules, so that an asset has the same identity in both.

The rules are on its page "Asset Definitions" and in `airflow.sdk.definitions.asset`: the scheme is in lower case, there
are no trailing slashes, the query is sorted, and the fragment is dropped. Everything else keeps its case, the host too. `x-…:`
URIs and texts without a scheme are plain strings. Two rules are stricter than Airflow's: credentials are refused, not
dropped, and every part of a `postgres:` URI must be there.

This module also recognises credentials in values that are stored and shown in clear. No message repeats them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

_KEY: Final = re.compile(
    r"(?:^|_)(?:password|passwd|pwd|passphrase|secret|token|credentials?|signature|sig"
    r"|(?:api|access|private|secret|account)_?key(?:_id)?)$"
)
_VALUE: Final = re.compile(
    r"://[^/?#\s]*:[^/?#\s]*@"  # user:password@ in any URL, also one within another (jdbc:postgresql://…)
    r"|\b(?:password|passwd|pwd)\s*="  # libpq and JDBC connection strings
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----",
    re.IGNORECASE,
)


def names_credential(key: str) -> bool:
    """Whether a value under `key` (`db_password`, `apiKey`, `X-Amz-Signature`) would be a credential."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", key)
    return _KEY.search(words.lower()) is not None


def uri_holds_credential(uri: str) -> bool:
    """Whether `uri` names a user, a password or a signature. Raises ValueError when it cannot be split."""
    parts = urlsplit(uri)
    return (
        "@" in parts.netloc
        or _VALUE.search(uri) is not None
        or any(names_credential(key) for key, _ in parse_qsl(parts.query))
    )


def credentials_in(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield each path within a JSON value where there seems to be a credential."""
    if isinstance(value, dict):
        for key, member in value.items():
            if isinstance(member, str) and member and names_credential(key):
                yield (*path, key)
            else:
                yield from credentials_in(member, (*path, key))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from credentials_in(member, (*path, index))
    elif isinstance(value, str) and _VALUE.search(value):
        yield path


_LONGEST: Final = 1500
_RFC_3986: Final = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+")


def normalise(uri: str) -> str:
    """The asset's identity for `uri`; a normalised URI is returned as it is.

    Raises ValueError with a sentence that repeats no part of the URI.
    """
    if not 0 < len(uri) <= _LONGEST:
        raise ValueError(f"a URI must have 1 to {_LONGEST} characters")
    if not _RFC_3986.fullmatch(uri):
        raise ValueError(
            "a URI consists of ASCII letters, digits and RFC 3986 punctuation: percent-encode all else (é is %C3%A9)"
        )
    try:
        parts = urlsplit(uri)
        secret = uri_holds_credential(uri)
    except ValueError:
        raise ValueError("is not a URI: brackets in it belong around an IPv6 address only") from None
    if secret:
        raise ValueError(
            "holds a user name or a credential, and URIs are stored and shown in clear: keep it in a connection"
        )
    if not parts.scheme or parts.scheme.startswith("x-"):
        return uri
    if parts.scheme == "airflow":
        raise ValueError("the scheme `airflow:` is reserved: use another one, or `x-…:` for one of your own")
    return urlunsplit(_by_scheme(_by_airflow(parts)))


def _by_airflow(parts: SplitResult) -> SplitResult:
    path = parts.path.rstrip("/")
    if not parts.netloc and path.startswith("//"):
        path = "/" + path.lstrip("/")  # else the path's first part would be written as a host
    return parts._replace(path=path or "/", query=urlencode(sorted(parse_qsl(parts.query))), fragment="")


def _by_scheme(parts: SplitResult) -> SplitResult:
    match parts.scheme:
        case "s3" if not parts.netloc:
            raise ValueError("an s3: URI names a bucket: write `s3://bucket/prefix/`")
        case "postgres" | "postgresql":
            return _postgres(parts)
        case "file" if parts.netloc or not parts.path.startswith("/"):
            raise ValueError("a file: URI has no host and an absolute path: write three slashes, `file:///data/inbox`")
    return parts


def _postgres(parts: SplitResult) -> SplitResult:
    names = parts.path.split("/")[1:]
    if not parts.hostname or len(names) != len(("database", "schema", "table")) or not all(names):
        raise ValueError("a postgres: URI names one table: write `postgres://host/database/schema/table`")
    try:
        address = parts.netloc if parts.port is not None else parts.netloc.rstrip(":") + ":5432"
    except ValueError:
        raise ValueError("the port of a postgres: URI is a number up to 65535") from None
    return parts._replace(scheme="postgres", netloc=address)
