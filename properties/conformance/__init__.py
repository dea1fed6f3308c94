"""Conformance: any cache, held against the core system, with a verdict on every rule.

`run.run_conformance` does it; `plugin` offers it to pytest. Reading order: `rules` (what is asked),
`subject`, `contract`, `asking` and `observing` (the cache), `graph` (the specification), `judge` (one
call), `explore` and `book` (all of them), `confirm` (a break, shown again), `record` and `repeat` (a
run, made again), `fate` (what was not tried, and why), `report` and `page`, `suite` (the instances),
`run`. Nothing is imported here, since pytest loads the plugin of this package at every start.
"""
