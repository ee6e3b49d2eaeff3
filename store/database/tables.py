"""What the metadata database's tables are declared with."""

from __future__ import annotations

from sqlalchemy import BigInteger, Index, Integer, MetaData, String, Table, text
from sqlalchemy.schema import SchemaItem

from store.database.lifecycle import FEATURE, LIFECYCLE, Lifecycle
from store.keys import LONGEST_PARTITION_KEY

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
BIG_ID = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers only INTEGER primary keys by itself
NAME = String(250)
UUID = String(36)
PARTITION_KEY = String(LONGEST_PARTITION_KEY)


def table(
    name: str,
    lifecycle: Lifecycle,
    *parts: SchemaItem,
    sqlite_autoincrement: bool = False,
    feature: str | None = None,
) -> Table:
    """Declare a table, of the kernel or of a feature. What is done with a feature's depends on a list, not on the declaration."""
    info = {LIFECYCLE: lifecycle, FEATURE: feature}
    return Table(name, metadata, *parts, info=info, sqlite_autoincrement=sqlite_autoincrement)


def only_of_tasks(*columns: str, table: str) -> Index:
    """Return an index over what tasks wrote; rows of watchers and people are not in it, and cost nothing."""
    where = text(f"{columns[0]} IS NOT NULL")
    return Index(f"ix_{table}_{'_'.join(columns)}", *columns, postgresql_where=where, sqlite_where=where)
