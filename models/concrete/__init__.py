"""The plain-Python interpretation: one step at a time, with reasons. Every other engine is held to it."""

from kvspec.models.concrete.evaluate import Environment, evaluate
from kvspec.models.concrete.machine import Event, Machine, Outcome, Refusal
from kvspec.models.concrete.state import State
from kvspec.models.concrete.text import parse_event, parse_state, show_event, show_state, state_json

__all__ = [
    "Environment",
    "Event",
    "Machine",
    "Outcome",
    "Refusal",
    "State",
    "evaluate",
    "parse_event",
    "parse_state",
    "show_event",
    "show_state",
    "state_json",
]
