"""The words that a configuration may use without a dotted path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from triggers.base import BaseConnection, BaseEventTrigger
from triggers.local_folder.new_files import FileNewFiles
from triggers.postgres.connection import PostgresConnection
from triggers.postgres.new_rows import NewRows
from triggers.s3.connection import S3Connection
from triggers.s3.new_files import S3NewFiles

TRIGGERS: Final[Mapping[str, type[BaseEventTrigger[Any, Any]]]] = {
    "s3.new_files": S3NewFiles,
    "postgres.new_rows": NewRows,
    "file.new_files": FileNewFiles,
}

CONNECTIONS: Final[Mapping[str, type[BaseConnection]]] = {
    "s3": S3Connection,
    "postgres": PostgresConnection,
}
