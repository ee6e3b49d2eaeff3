"""Everything that answers HTTP requests: the API, the web pages, and the server that carries them."""
