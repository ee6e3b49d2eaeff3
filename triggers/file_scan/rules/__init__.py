"""The chain of rules that decides which listed versions are reported now."""
