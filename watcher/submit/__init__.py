"""How Spark is started: one contract, one file per submitter."""
