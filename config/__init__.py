"""The YAML configuration: read, checked as a whole, and handed on as frozen models.

`loader.load` is the way in, `models.Configuration` what comes out, `errors.ConfigurationInvalid` what went wrong. This
package knows neither triggers nor the store: the words it may accept arrive as a `vocabulary.Vocabulary`.
"""
