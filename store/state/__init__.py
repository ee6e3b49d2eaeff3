"""Asset store and task store: entries, their history, transactions."""
