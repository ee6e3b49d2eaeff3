"""Hosts the watchers: one supervised task each, one transaction per batch."""
