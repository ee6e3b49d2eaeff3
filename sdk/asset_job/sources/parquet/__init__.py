"""Read Parquet files so that every value is the file's, or is refused by name."""
