"""Interleavings of clients of the decode backend: explored, sampled, shrunk and replayed.

Reading order: `histories` (from recorded calls to a history), `judging`, `exploring`, `shrinking`,
`replaying`. torch is loaded with it.
"""

from kvspec.properties.interleaving.exploring import (
    Failing,
    Interleavings,
    explore_scenario,
    sample_scenario,
)
from kvspec.properties.interleaving.histories import history_of
from kvspec.properties.interleaving.judging import Check, Judge, Judgement
from kvspec.properties.interleaving.replaying import Replayed, replay_schedule
from kvspec.properties.interleaving.shrinking import shrink

__all__ = [
    "Check",
    "Failing",
    "Interleavings",
    "Judge",
    "Judgement",
    "Replayed",
    "explore_scenario",
    "history_of",
    "replay_schedule",
    "sample_scenario",
    "shrink",
]
