"""Triggers in processes of their own."""
