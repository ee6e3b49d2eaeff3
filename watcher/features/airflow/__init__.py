"""The neighbouring Airflow: events that go there, and events that come from there."""
