"""The specification run in plain Python: single steps, refusals with a reason, traces."""
