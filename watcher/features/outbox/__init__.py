"""Sending what other systems are owed."""
