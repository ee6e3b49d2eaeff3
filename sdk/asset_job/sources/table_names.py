"""Names of PostgreSQL's tables, as watchers and their events write them. Pure."""

from __future__ import annotations

import re

from asset_job.errors import AssetJobError

_QUOTED_TABLE = re.compile(r'"(?:[^"]|"")+"\."(?:[^"]|"")+"')


def quoted(name: str) -> str:
    """An identifier, quoted for PostgreSQL."""
    return '"' + name.replace('"', '""') + '"'


def table_sql(table: str) -> str:
    """The quoted form of `schema.table`, as the system catalogs have it, or of `"schema"."table"`, which is quoted already.

    Unquoted, everything after the first dot is the table, and without a dot the schema is `public`. Raises `AssetJobError`.
    """
    if table.startswith('"'):
        if _QUOTED_TABLE.fullmatch(table) is None:
            raise AssetJobError(
                f'{table} names no table: write "schema"."table" as SQL quotes it, each " in a name doubled'
            )
        return table
    schema, dot, name = table.partition(".")
    return f"{quoted(schema or 'public')}.{quoted(name)}" if dot else f"{quoted('public')}.{quoted(table)}"
