"""One table format each: plain Parquet folders, local or on S3, Delta Lake, and Iceberg."""
