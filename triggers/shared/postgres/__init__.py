"""PostgreSQL for whoever connects to it: addresses, sign-in, errors, names in SQL, and values as JSON."""
