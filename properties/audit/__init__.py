"""The audit: a log of events replayed against the specification, with bounded memory.

`Acceptor` takes events in their order of arrival. `memory` has what is remembered, `window` the steps of
the specification, `replay` what each type of event means, `delivery` the order of each source, `observe`
what follows a cause, `form` what an event may carry, and `rules` every code.
"""

from kvspec.properties.audit.acceptor import Acceptor, Limits, Summary
from kvspec.properties.audit.findings import Finding
from kvspec.properties.audit.rules import RULES, Rule

__all__ = ["RULES", "Acceptor", "Finding", "Limits", "Rule", "Summary"]
