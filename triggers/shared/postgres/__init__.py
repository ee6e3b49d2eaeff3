"""PostgreSQL for whoever connects to it: sign-in, errors, names in SQL, and values as JSON."""
