"""Mode `id`: new rows by their ids."""
