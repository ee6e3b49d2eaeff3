"""New or updated files of a local folder."""
