"""Runs made of queued events and ticks."""
