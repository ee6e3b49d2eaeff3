"""Everything that answers over HTTP: the API, the web pages, and the server below them."""
