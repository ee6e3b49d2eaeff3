"""The metadata database: connections, tables, and where SQLite and PostgreSQL differ."""

from store.database.engine import Database, sqlite_url

__all__ = ["Database", "sqlite_url"]
