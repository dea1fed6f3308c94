"""Identities: what holds between the formulas for all whole numbers, and not for one fixture alone.

`models/symbolic/identities.py` proves them with Z3. Each is broken by some change of a formula.
"""

from __future__ import annotations

from kvspec.spec.formulas.byte_identities import BYTES
from kvspec.spec.formulas.claims import joined
from kvspec.spec.formulas.service_identities import RATES
from kvspec.spec.formulas.work_identities import WORK

IDENTITIES = joined(BYTES, WORK, RATES)
"""All of them, in the order of the text."""
