"""Threads under control: one runs at a time, and which one is a choice that can be made again.

Reading order: `schedule` (what a run was), `scheduler` (threads that hand over a baton, and their locks),
`strategies` (who runs next), `explore` (all schedules with few preemptions). Nothing here knows a cache.
"""

from kvspec.models.interleaving.explore import Explored, explore
from kvspec.models.interleaving.schedule import (
    Choice,
    NotApplicableError,
    Run,
    Step,
    StuckError,
    count_preemptions,
)
from kvspec.models.interleaving.scheduler import ControlledLock, Scheduler
from kvspec.models.interleaving.strategies import (
    Follow,
    Keep,
    Lenient,
    Priorities,
    RandomWalk,
    Steered,
    Strategy,
)

__all__ = [
    "Choice",
    "ControlledLock",
    "Explored",
    "Follow",
    "Keep",
    "Lenient",
    "NotApplicableError",
    "Priorities",
    "RandomWalk",
    "Run",
    "Scheduler",
    "Steered",
    "Step",
    "Strategy",
    "StuckError",
    "count_preemptions",
    "explore",
]
