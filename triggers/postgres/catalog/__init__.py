"""What the catalog says about a watched table, and whether detection is exact with it."""
