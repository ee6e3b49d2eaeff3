"""Grouping of events by partition keys."""
