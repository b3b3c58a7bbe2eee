"""Elastic jobs, for launchers that are written in Python: not there yet."""
