"""Which of several versions of one path count at a job."""
