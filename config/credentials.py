"""Recognises credentials where none belong: in what is stored and shown in clear. Never repeats what it found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

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
    """The paths within a JSON value where a credential seems to be."""
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
