"""Messages to other systems, each sent until it has arrived."""

from watcher.feature import Feature

FEATURE = Feature(name="outbox")
