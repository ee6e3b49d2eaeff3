"""What a configuration means at run time: its classes, declarations, sources, checks and reload."""
