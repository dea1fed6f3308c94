"""Hypothesis profiles for all tests: HYPOTHESIS_PROFILE names dev, ci or deep."""

from kvspec.properties.stateful import register_profiles

register_profiles()
