"""The web pages: the API's data for people, as HTML that the server renders and that is readable without a script."""
