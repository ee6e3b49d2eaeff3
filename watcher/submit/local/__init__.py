"""Drivers as processes of this machine: the folder of a try, its shim, and what is known of a process."""
