"""Jobs that are disturbed on purpose; scripts/run_chaos.py runs them."""
