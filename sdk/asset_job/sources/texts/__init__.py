"""Texts as values: the encodings of files, the forms in which a text is a value, and the types that texts show."""
