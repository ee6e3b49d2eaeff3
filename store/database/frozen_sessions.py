"""Sessions of ours whose process was stopped in the middle of a statement, locks and all: nobody else would ever end them.

asyncpg sends a statement it has not prepared in two halves, and PostgreSQL takes a session that waits for the second for busy:
idle_in_transaction_session_timeout does not run. A process that goes on finds its session gone, as after that timeout.
https://www.postgresql.org/docs/current/runtime-config-client.html#GUC-IDLE-IN-TRANSACTION-SESSION-TIMEOUT
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import text

from store.database.engine import APPLICATION, Database

_END: Final = text("""
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND usename = current_user AND application_name = :application
      AND state = 'active' AND wait_event = 'ClientRead'
      AND state_change < clock_timestamp() - make_interval(secs => :seconds)
""")


async def end_frozen_sessions(database: Database) -> int:
    """Those that have waited for their process for longer than a transaction may be idle; returns how many (PostgreSQL)."""
    if database.dialect != "postgresql":
        return 0
    parameters = {"application": APPLICATION, "seconds": database.idle_in_transaction_timeout}
    async with database.statements() as connection:
        return int((await connection.execute(_END, parameters)).scalar_one())
