"""When a run is made, of which events, and following each of its tries to the end."""
