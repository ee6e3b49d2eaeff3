"""Events whose files are moved or deleted once every job has loaded them."""
