"""`watcher demo`: a shop that writes, a daemon that watches, Spark jobs that load, and a count of what got lost."""
