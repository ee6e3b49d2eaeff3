"""Authentication: tokens, sessions of browsers, and what protects them."""
