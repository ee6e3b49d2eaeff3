"""Groups of events by their partition keys."""
