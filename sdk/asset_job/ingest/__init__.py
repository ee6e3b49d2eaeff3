"""`builtin:ingest`: the files and rows of a run's events become the run's part of a Parquet table, without a line of code."""
