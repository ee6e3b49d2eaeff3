"""Triggers: the contract and the incremental watchers."""
