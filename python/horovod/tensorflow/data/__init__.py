"""Processes that prepare data for those that train."""
