"""The command line of spark-submit and what it needs: connections, packages, class archives; the Spark UI and YARN."""
