"""Applications that come with the daemon; spark-submit starts each as a file."""
