"""Property tests of a backend, generated from the specification and guided by its state graph.

`run` holds a backend against an instance and gives a `StatefulReport`; `stateful_test` makes a test
function of that, and `machine_for` a plain Hypothesis state machine. Reading order: `goals` and `walks`
(what is to be reached, and how), `plan`, `draws` (what Hypothesis draws), `oracle`, `driver` and
`mismatch` (one step, checked), `machine`, `tally`, `report`, `run`, `profiles`; `reference` has backends
with known faults and `plain` the choice without a plan.
"""

from kvspec.properties.stateful.machine import BackendFactory, machine_for
from kvspec.properties.stateful.mismatch import Entry, Failure, Mismatch
from kvspec.properties.stateful.plain import PlainChoice, plain_choice
from kvspec.properties.stateful.plan import Plan, make_plan
from kvspec.properties.stateful.profiles import PROFILES, Profile, register_profiles
from kvspec.properties.stateful.reference import MutantBackend, SpecBackend
from kvspec.properties.stateful.report import RunProgress, StatefulReport
from kvspec.properties.stateful.run import Save, run, stateful_test

__all__ = [
    "PROFILES",
    "BackendFactory",
    "Entry",
    "Failure",
    "Mismatch",
    "MutantBackend",
    "PlainChoice",
    "Plan",
    "Profile",
    "RunProgress",
    "Save",
    "SpecBackend",
    "StatefulReport",
    "machine_for",
    "make_plan",
    "plain_choice",
    "register_profiles",
    "run",
    "stateful_test",
]
