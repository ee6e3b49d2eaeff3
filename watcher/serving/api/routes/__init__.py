"""The routes of `/api/v2` and of the probes, one module for each resource."""
