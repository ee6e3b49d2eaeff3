"""Reading the YAML: documents with their locations, values from outside, and validation that reports every problem."""
