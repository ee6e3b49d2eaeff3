"""Who lives and leads, who may ask, what was done, and what is past its time."""
