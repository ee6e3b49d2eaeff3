"""What a host asks a watcher of files beside polls: about one file, all files, a position, and cleaning."""
