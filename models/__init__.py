"""Interpretations of the specification: run it, search it, prove it, export it."""
