"""The JSON that the API answers with: Airflow's shapes and names where it has them."""
