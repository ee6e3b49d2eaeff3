"""What a long-lived process stands on: its home, loops, health, logs, metrics and leadership. Imports no other room."""
