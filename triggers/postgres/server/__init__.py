"""How a watched PostgreSQL is reached, and what it says about itself."""
