"""What is sent to other systems: the outbox, the neighbouring Airflow, alerts."""
