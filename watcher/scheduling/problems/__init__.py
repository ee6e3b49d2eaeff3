"""What is wrong now: one list, behind `watcher status`, `/readyz`, the overview and the alerts."""
