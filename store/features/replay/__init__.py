"""Stored events that a job gets again."""
