"""CSV by RFC 4180: a grammar that finds records, a parser that makes columns of them, and the inference of their types."""
