"""Stored events for a new job."""
