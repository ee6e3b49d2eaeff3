"""Mode `log` of `postgres.new_rows`: every committed change of a table, read by SQL from a logical replication slot."""
