"""Hypothesis profiles for all tests: HYPOTHESIS_PROFILE names dev, ci or deep."""

import sys
from pathlib import Path

from kvspec.properties.stateful import register_profiles

# Modules beside the tests can be imported by them.
sys.path.insert(0, str(Path(__file__).parent))
register_profiles()
