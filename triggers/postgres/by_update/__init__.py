"""Mode `updated_at`: new and updated rows by the transactions that wrote them."""
