"""Whatever is done to a trace's text, reading gives a trace that can be used, or a TraceError."""

import copy
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from kvspec.counterexamples.errors import TraceError
from kvspec.counterexamples.files import dump_trace, parse_trace
from kvspec.counterexamples.format import Trace, plain
from kvspec.counterexamples.itf import to_itf
from kvspec.counterexamples.lanes import lanes
from kvspec.counterexamples.replay import replay

ODD = [None, True, 0, 1, -1, 10**30, 1.5, "", "handle0", [], {}, [1], {"a": 1}]
ODD_ITF = [{"#map": []}, {"#bigint": "1"}, {"tag": "None"}, {"#map": [[1, 2]]}, {"#tup": []}]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_reading_never_fails_otherwise(stale: Trace, data: st.DataObject) -> None:
    """A value replaced, dropped or added anywhere, in either format, is taken or refused in words."""
    document = copy.deepcopy(data.draw(st.sampled_from([plain(stale), to_itf(stale)]), "format"))
    level = document
    while True:
        keys = list(level) if isinstance(level, dict) else list(range(len(level)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys), "key")
        inside = level[key]
        if not isinstance(inside, dict | list) or data.draw(st.booleans(), "stop"):
            break
        level = inside
    what = data.draw(st.sampled_from(["drop", "replace", "add"]), "what")
    value = data.draw(st.sampled_from([*ODD, *ODD_ITF]), "value")
    if what == "drop":
        del level[key]
    elif what == "replace":
        level[key] = value
    elif isinstance(level, dict):
        level["colour"] = value
    else:
        level.append(value)
    refused = None
    try:
        trace = parse_trace(json.dumps(document), "t.json")
        assert parse_trace(dump_trace(trace)) == trace
        replay(trace)
        lanes(trace)
    except TraceError as error:
        refused = error
    if refused is not None:
        assert refused.where.startswith(("t.json", "the trace"))
        assert refused.advice
