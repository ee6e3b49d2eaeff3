"""Drivers that are started ahead of the try that uses them."""
