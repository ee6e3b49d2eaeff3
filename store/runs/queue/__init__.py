"""Events that wait for a job's next run, and which jobs have something to look at."""
