"""Parquet files as tables have them: written by executors, with the bounds of their columns for whoever skips files."""
