"""Read files of JSON by RFC 8259, so that each value in a column is the value in the file."""
