"""The embedded language in which the transition systems are written."""
