"""What people do to runs and to queued events."""
