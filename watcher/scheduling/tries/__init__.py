"""Tries of runs: started, followed and ended."""
