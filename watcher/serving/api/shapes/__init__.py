"""The JSON shapes of the API's answers, with Airflow's shapes and names where it has them."""
