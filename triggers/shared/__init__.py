"""What several triggers and the host share, and what knows none of them."""
