"""New or updated objects of an S3 bucket."""
