"""Housekeeping of a running installation: clean-up, and the watch for a restored backup."""
