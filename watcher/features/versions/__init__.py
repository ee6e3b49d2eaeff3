"""The newest of several versions of a file counts."""
