"""The neighbouring Airflow: its events become ours, ours become its."""
