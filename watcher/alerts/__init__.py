"""Alerts: what holds now is compared with what was told, and each change is sent once, through the outbox."""
