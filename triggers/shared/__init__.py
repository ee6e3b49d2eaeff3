"""What several triggers and the host share. It imports nothing of ours but what is shared."""
