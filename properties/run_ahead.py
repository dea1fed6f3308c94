"""All claims about requests under a scheduler that runs ahead of the device."""

from kvspec.properties import run_ahead_progress, run_ahead_steps
from kvspec.properties.run_ahead_claims import run_ahead as properties

__all__ = ["properties", "run_ahead_progress", "run_ahead_steps"]
