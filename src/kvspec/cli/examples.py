"""Examples of each command, for its help: a command, and what it does."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "verify": (
        ("kvspec verify", "all of it, by every means"),
        ("kvspec verify peer --stage prove", "one kind of stage"),
        ("kvspec verify --json --sarif verify.sarif", "for programs"),
    ),
    "explore": (
        ("kvspec explore", "core/TINY"),
        ("kvspec explore peer 1,1,2,3,4", "another system and instance"),
        ("kvspec explore peer 1,2,2,3,4 --symmetry", "half the states"),
        ("kvspec explore peer 1,1,1,2,2 --coverage", "how often guards refused"),
        ("kvspec explore peer 1,2,2,3,4 --max-states 99", "ends with unknown"),
        ("kvspec explore --json", "for a program"),
    ),
    "prove": (
        ("kvspec prove", "the core system, with z3"),
        ("kvspec prove peer --solver both", "cvc5 as well, on the same formulas"),
        ("kvspec prove --only 'step:*:publish'", "some obligations alone"),
        ("kvspec prove peer --smtlib peer-smtlib", "write them as files"),
    ),
    "mutants": (
        ("kvspec mutants", "every mutant of the core system"),
        ("kvspec mutants --only 'publish.drop-guard.*'", "some alone"),
    ),
    "test": (
        ("kvspec test", "the torch cache, on TINY"),
        ("kvspec test --profile ci", "always the same run"),
        ("kvspec test core TINY --backend my.cache:make", "a cache of your own"),
    ),
    "conform": (
        ("kvspec conform my.cache:make", "every rule, in seconds"),
        ("kvspec conform my.cache:make --instance TINY", "on one of them"),
        ("kvspec conform my.cache:make --xfails known.txt", "known failures"),
    ),
    "replay": (
        ("kvspec replay", "the whole library"),
        ("kvspec replay publish.drop-guard.STALE_SNAPSHOT", "one of its traces"),
        ("kvspec replay trace.json --picture text", "as a space-time diagram"),
        ("kvspec replay trace.json --as-test", "a trace as a pytest file"),
    ),
    "atlas": (
        ("kvspec atlas", "every group of public faults"),
        ("kvspec atlas A-B01", "one of them, explained"),
        ("kvspec atlas A-B01 --prove", "with the proof for all sizes"),
        ("kvspec atlas --json", "for a program"),
    ),
    "interleave": (
        ("kvspec interleave", "every scenario, up to 2 preemptions"),
        ("kvspec interleave two-appends", "one of them"),
        ("kvspec interleave --fault publish.torn", "a fault is found"),
        ("kvspec interleave busy --sample 500", "four clients, by chance"),
        ("kvspec interleave load", "four clients on real threads"),
        ("kvspec interleave replay", "the stored orders, again"),
    ),
    "record": (
        ("kvspec record run.jsonl", "a real run, for kvspec audit"),
        ("kvspec record big.jsonl --requests 50", "a longer one"),
        ("kvspec record bad.jsonl --fault lose-event", "with an event less"),
        ("kvspec record run.jsonl --metrics-out run.prom", "with its metrics"),
    ),
    "show": (
        ("kvspec show", "the systems and their instances"),
        ("kvspec show core", "all of the core system"),
        ("kvspec show core publish", "one action, its guards and codes"),
        ("kvspec show core nothing_staged_is_seen", "one claim"),
        ("kvspec show core --format mermaid", "transition diagrams"),
        ("kvspec show core publish --format mermaid", "what one action moves"),
        ("kvspec show core --graph --format dot", "the states of the first instance"),
        ("kvspec show peer 1,1,1,2,2 --graph", "of another one"),
    ),
    "export": (
        ("kvspec export --to promela", "core/TINY, for Spin"),
        ("kvspec export core TINY --to tla --out core.tla", "with core.cfg, for TLC"),
        ("kvspec export peer --to smtlib --out peer-smtlib", "for any solver"),
    ),
    "projections": (
        ("kvspec projections", "do the runtimes' facts commute?"),
        ("kvspec projections --json", "with the runs that look alike"),
    ),
    "pins": (
        ("kvspec pins ./unpacked", "are these the releases that are meant?"),
        ("kvspec pins ./unpacked --json", "for a program"),
    ),
    "report": (
        ("kvspec report", "diagrams and a picture, as Markdown"),
        ("kvspec report --readme README.md --check", "are its parts current?"),
        ("kvspec report --readme README.md", "make its parts anew; runs verify"),
    ),
    "check": (
        ("kvspec check manifest.json", "a document of any kind"),
        ("kvspec check - --json", "from standard input, for a program"),
        ("kvspec check --negatives", "every stored case that must fail"),
        ("kvspec check --codes manifest", "its error codes and free fields"),
        ("kvspec check --schema layer-trace", "its JSON Schema"),
    ),
    "manifest": (
        ("kvspec manifest", "the worked one"),
        ("kvspec manifest manifest.json --json", "for a program"),
        ("kvspec manifest manifest.json --bind", "with new digests"),
        ("kvspec manifest --layers 2 --kv-heads 2 --head-width 4", "a shape's bytes"),
    ),
    "ledger": (
        ("kvspec ledger trajectory.json", "every ledger of every event"),
        ("kvspec ledger trajectory.json --bind", "with new ledgers"),
        ("kvspec ledger - --json", "from standard input, for a program"),
    ),
    "service": (
        ("kvspec service trace.json", "records, metrics and rates"),
        ("kvspec service trace.json --bind", "with new views and metrics"),
        ("kvspec service trace.json --tbt-limit 12", "under another limit"),
        ("kvspec service - --json", "from standard input, for a program"),
    ),
    "audit": (
        ("kvspec audit run.jsonl", "a log of lines, event by event"),
        ("kvspec audit - --json", "from standard input, for a program"),
        ("kvspec audit run.jsonl --sarif run.sarif", "findings for CI"),
    ),
    "linearize": (
        ("kvspec linearize run.json", "with the reasons"),
        ("kvspec linearize run.json --picture run.svg", "and a picture of it"),
        ("kvspec linearize a.json b.json --junit runs.xml", "several, for CI"),
    ),
    "formulas": (
        ("kvspec formulas", "formulas, units, symbols"),
        ("kvspec formulas rows_saved 2048 128", "one of them, computed"),
        ("kvspec formulas --prove", "what holds between them, for all values"),
        ("kvspec formulas --only 'doubling_*'", "some of that alone"),
        ("kvspec formulas --json", "for a program"),
    ),
    "bench": (
        ("kvspec bench", "9.9 million states, ours and Spin's"),
        ("kvspec bench 2,2,2,3,2", "a smaller row"),
        ("kvspec bench audit", "events a second of kvspec audit"),
        ("kvspec bench linearize", "histories a second of kvspec linearize"),
        ("kvspec bench telemetry", "what telling costs the torch cache"),
        ("kvspec bench transactions", "what publishing costs it"),
    ),
}


def example_text(command: str) -> str:
    """The examples of a command, one a line."""
    examples = EXAMPLES[command]
    width = max(len(line) for line, _ in examples)
    return "\n".join(f"    {line:{width}}  {meaning}" for line, meaning in examples)
