"""Jobs, their queues, runs and tries."""
