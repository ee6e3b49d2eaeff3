"""The command line of spark-submit, and what it finds: packages, class archives, YARN."""
