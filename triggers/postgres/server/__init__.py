"""The sessions that watchers of one PostgreSQL share, and what the server says about itself."""
