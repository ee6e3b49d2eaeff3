"""A run's changes of rows, merged into a table by key."""
