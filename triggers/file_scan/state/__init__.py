"""What a watcher of files keeps: how far its scans have come, and which versions it has handled."""
