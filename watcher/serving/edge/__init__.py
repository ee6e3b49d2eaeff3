"""What stands between a socket and the application: how much, how long and how many, before anything else is looked at."""
