"""What is generated from the models for readers of the YAML: the JSON Schema and the tables of docs/configuration.md."""
