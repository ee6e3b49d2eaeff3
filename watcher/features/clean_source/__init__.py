"""Moves or deletes the files of events that every job has loaded."""
