"""Answers that go on for as long as somebody listens."""
