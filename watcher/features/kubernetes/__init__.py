"""Drivers as pods of Kubernetes: what is created for a try, and what a pod's state means for it."""
