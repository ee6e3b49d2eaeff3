"""Batches of one partition each."""
