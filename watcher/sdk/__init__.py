"""What travels to the job: `asset_job`, standard library only, sent to the driver by --py-files."""
