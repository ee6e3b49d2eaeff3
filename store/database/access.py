"""The tables of tokens, sessions and the audit, which `store.database.schema` lists with all others.

They stand by themselves for the commands about tokens: to declare all tables takes a third of such a command.
"""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Integer, String, Text

from store.database.column_types import UtcDateTime
from store.database.lifecycle import KeptForEver, Lifecycle, RemovedBy, RowOwner
from store.database.tables import BIG_ID, NAME, UUID, table

api_token = table(
    "api_token",
    Lifecycle(
        owner=RowOwner.PERSON, kept=(KeptForEver(reason="The audit and the history name tokens that are revoked."),)
    ),
    Column("id", UUID, primary_key=True),
    Column("subject", NAME, nullable=False),
    Column("role", String(16), nullable=False),
    Column("token_hash", String(64), nullable=False, unique=True),
    Column("created_at", UtcDateTime, nullable=False),
    Column("revoked_at", UtcDateTime),
    Column("name", NAME),
    Column("lifetime_seconds", Integer),  # as requested; null: until it is revoked
    Column("expires_at", UtcDateTime),
    Column("last_used_at", UtcDateTime),  # to the minute
)

api_session = table(
    "api_session",
    Lifecycle(
        owner=RowOwner.PERSON,
        kept=(
            RemovedBy(function="store.processes.tokens.begin_session"),
            RemovedBy(function="store.processes.tokens.end_session"),
        ),
    ),
    Column("id_hash", String(64), primary_key=True),
    Column("token_id", ForeignKey("api_token.id"), nullable=False),  # the session ends with this token
    Column("expires_at", UtcDateTime, nullable=False),
)

audit = table(
    "audit",
    Lifecycle(owner=RowOwner.INSTALLATION, kept=(KeptForEver(reason="It says who did what, however long ago."),)),
    Column("id", BIG_ID, primary_key=True, autoincrement=True),
    Column("at", UtcDateTime, nullable=False, index=True),
    Column("actor", NAME, nullable=False),
    Column("action", String(64), nullable=False),
    Column("target", String(2000), nullable=False),
    Column("detail", Text, nullable=False, server_default="{}"),
    Column("write_id", String(64), index=True),
    sqlite_autoincrement=True,
)
