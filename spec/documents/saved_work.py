"""The ledger of saved work: the kind with all of its contracts.

Reading order: `saved_work_record` (what is written down), `saved_work_counts` (work with and without a
cache), `saved_work_frontier` (how far output may be ahead of committed rows).
"""

from kvspec.spec.documents.saved_work_counts import OPERATIONS, SAVED_WORK, ratio_of
from kvspec.spec.documents.saved_work_frontier import emitted

__all__ = ["OPERATIONS", "SAVED_WORK", "emitted", "ratio_of"]
