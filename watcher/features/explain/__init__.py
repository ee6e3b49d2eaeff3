"""What became of one item of a source."""
