"""What became of a file or a row."""
