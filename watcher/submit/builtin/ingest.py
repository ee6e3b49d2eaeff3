"""The application `builtin:ingest`, as spark-submit starts it. All its code is in the SDK that travels with the job."""

from asset_job.ingest.job import main

if __name__ == "__main__":
    main()
