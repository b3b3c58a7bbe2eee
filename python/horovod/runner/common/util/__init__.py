"""Helpers of launchers, under the names that libraries import them by."""
