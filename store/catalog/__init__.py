"""The configuration's mirror: assets, aliases, watchers, and how they are doing."""
