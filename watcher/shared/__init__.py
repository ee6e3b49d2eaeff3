"""What imports nothing of the daemon, so that everything may import it."""
