"""Triggers in processes of their own: nothing that a trigger does there reaches the host or another watcher."""
