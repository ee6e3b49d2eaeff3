"""Housekeeping of a running installation: clean-up, and watches for a restored backup and for folders that cannot be written to."""
