"""The layer between a socket and the application. It limits sizes, times and numbers before anything else is checked."""
