"""Lines of text as rows."""
