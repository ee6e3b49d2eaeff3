"""Which of the job's connections leads to a source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import AssetJobError

_WORDS = {"s3": "S3", "postgres": "PostgreSQL"}


def connection_of(connections: Mapping[str, Mapping[str, Any]], kind: str, name: str | None) -> Mapping[str, Any]:
    """The one called `name`, or else the only one of its kind (`s3`, `postgres`). Raises `AssetJobError`."""
    fitting = {found: values for found, values in connections.items() if values.get("type") == kind}
    if name is None and len(fitting) == 1:
        return next(iter(fitting.values()))
    if name in fitting:
        return fitting[name]
    if not fitting:
        raise AssetJobError(f"the job has no {_WORDS[kind]} connection: name one in its spark.connections")
    names = ", ".join(fitting)
    raise AssetJobError(f"say which of the job's {_WORDS[kind]} connections is meant by connection=: {names}")
