"""What searches for files and rows need of stored events."""
