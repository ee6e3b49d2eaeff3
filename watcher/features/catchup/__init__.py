"""Stored events that new jobs get."""
