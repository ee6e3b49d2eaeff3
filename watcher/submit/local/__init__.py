"""Tries as processes of this machine: the folder of a try, its shim, its processes, and their submitter."""
