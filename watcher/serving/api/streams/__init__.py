"""Answers that continue for as long as a client listens."""
