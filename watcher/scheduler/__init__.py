"""From queued events to runs: pure decisions (`conditions`, `planning`) and the loop that carries them out."""
