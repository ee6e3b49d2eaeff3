"""The connection `type: iceberg`: a catalog, to which jobs commit; no trigger watches one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal, Self

from pydantic import Field, SecretStr

from triggers.base import BaseConnection


class IcebergConnection(BaseConnection):
    """An Iceberg catalog. `uri` and `properties` are pyiceberg's, and may hold credentials; `storage` names an S3 connection."""

    type: Literal["iceberg"] = "iceberg"
    catalog: Literal["rest", "sql"]
    uri: SecretStr
    warehouse: str | None = None
    properties: dict[str, SecretStr] = Field(default_factory=dict)
    storage: str | None = None

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Self, None]:
        """Open nothing: jobs reach the catalog themselves."""
        yield self.model_copy()
