"""The YAML configuration: read, checked as a whole, and handed on as frozen models.

Call `reading.loader.load` to read it. It returns a `models.Configuration`, or raises `errors.ConfigurationInvalid` with
everything that is wrong. This package knows neither triggers nor the store: the words it may accept arrive as a
`vocabulary.Vocabulary`.
"""
