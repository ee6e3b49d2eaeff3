"""Scheduling: when a run is made and from which events, which run starts, and following each try to its end."""
