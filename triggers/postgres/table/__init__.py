"""One watched table: examined, and asked."""
