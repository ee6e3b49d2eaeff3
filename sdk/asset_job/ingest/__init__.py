"""`builtin:ingest`: load the files and rows of a run's events into the run's part of a table, without a line of code."""
