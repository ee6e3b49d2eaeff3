"""`python -m watcher`."""

from watcher.guard import main

main()
