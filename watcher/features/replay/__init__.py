"""Stored events again, for one job."""
