"""Tries: their states and their fence, what their drivers were answered, and who may start one."""
