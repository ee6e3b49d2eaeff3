"""Which processes live and lead, who may call the API, what was done, and what is past its retention."""
