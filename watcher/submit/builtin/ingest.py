"""The application `builtin:ingest`, as spark-submit starts it: everything is in the SDK that travels along."""

from asset_job.ingest.job import main

if __name__ == "__main__":
    main()
