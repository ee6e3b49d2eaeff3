"""Jobs and their runs, and what became of each event at a job."""
