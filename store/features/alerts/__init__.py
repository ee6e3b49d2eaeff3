"""Messages about what is wrong."""
