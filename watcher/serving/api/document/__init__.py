"""The OpenAPI document, its page, and the refusals that it describes."""
