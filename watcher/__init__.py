"""The daemon: triggerer, scheduler, dispatcher, API and command line."""
