"""Events that go to a neighbouring Airflow."""
