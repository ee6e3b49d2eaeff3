"""Read exactly what is new, without extra jars, through Python data sources of Spark 4 that hand Arrow batches to the JVM.

Needs pyarrow and obstore (S3) or adbc-driver-postgresql (PostgreSQL) on driver and executors. Nothing here is imported
before it is used.
"""
