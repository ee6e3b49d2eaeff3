"""From queued runs to Spark applications: starts tries, finds them again after a crash, decides what became of them."""
