"""Counterexample traces as JSON documents, one trace a file."""
