"""Exhaustive search of bounded instances over packed integer states."""
