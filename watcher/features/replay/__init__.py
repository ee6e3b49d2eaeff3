"""Stored events that a job gets again, or for the first time."""
