"""A feature of Asset Watcher: a heartbeat to a dead man's switch, for as long as some daemon leads."""
