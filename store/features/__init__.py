"""What features keep in the metadata database, each in a folder of its name."""
