"""Compares the items of a watcher's source with the events that name them."""
