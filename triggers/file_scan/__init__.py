"""New or updated files, each exactly once: the pure parts that S3 and local folders share."""
