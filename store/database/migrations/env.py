"""Alembic's entry: runs the migrations on the connection that `store.database.migrations` hands over."""

from __future__ import annotations

from alembic import context

from store.database.schema import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, compare_server_default=True
)
with context.begin_transaction():
    context.run_migrations()
