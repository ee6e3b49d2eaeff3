"""`postgres.changes`: every committed change of a PostgreSQL table, read by SQL from a logical replication slot."""
