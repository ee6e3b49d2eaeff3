"""Alerts: what is wrong now is compared with what was reported; each change is sent once, through the outbox."""
