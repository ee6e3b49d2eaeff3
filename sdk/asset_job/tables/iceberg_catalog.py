"""A job's connection `type: iceberg` as pyiceberg's catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog

from ..errors import TargetFailed
from ..sources.s3_objects import S3Access, first_line

_STORAGE = {
    "access_key_id": "s3.access-key-id",
    "secret_access_key": "s3.secret-access-key",
    "session_token": "s3.session-token",
    "region": "s3.region",
    "endpoint": "s3.endpoint",
    "virtual_hosted_style_request": "s3.force-virtual-addressing",
    "skip_signature": "s3.anonymous",
}
"""obstore's settings, as pyiceberg calls them."""


def open_catalog(name: str, connection: Mapping[str, Any], access: S3Access | None) -> Catalog:
    """By the connection's name, which a SQL catalog has in its rows; `properties` of the connection win. Raises `TargetFailed` where nobody answers."""
    storage = {_STORAGE[name]: value for name, value in (access.config if access else ()) if name in _STORAGE}
    given = {name: connection[name] for name in ("uri", "warehouse") if connection.get(name)}
    properties = {"type": connection["catalog"], **given, **storage, **connection.get("properties", {})}
    try:
        return load_catalog(name, **properties)
    except Exception as error:  # each catalog has its own
        raise TargetFailed(f"the Iceberg catalog does not answer: {first_line(error)}") from error
