"""New or updated rows of PostgreSQL tables."""
