"""Bind negative cases to their valid documents as they are now: for whoever changes a document.

`python -m kvspec.counterexamples.rebind KIND...` does it; each case is then tried, and those that no
longer fail with their code are told on standard error. For `closure` the document itself is first bound
to its evidence, which are sets of other kinds and traces of the library: name it last.
"""

from __future__ import annotations

import sys

from kvspec.counterexamples.evidence_binding import bind_closure
from kvspec.counterexamples.negative_cases import check_set, rebind


def main(names: list[str]) -> int:
    """Rebind the sets of these kinds; 1 if a case does not do as it must."""
    for name in names:
        if name == "closure":
            bind_closure()
        rebind(name)
    bad = [result for name in names for result in check_set(name) if not result.holds]
    for result in bad:
        sys.stderr.write(f"{result.kind}: {result.case}: {result.problem}\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
