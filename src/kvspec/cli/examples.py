"""Examples of each command, for its help: a command, and what it does."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "explore": (
        ("kvspec explore", "the first instance of the core system"),
        ("kvspec explore peer 1,1,2,3,4", "another system and instance"),
        ("kvspec explore peer 1,2,2,3,4 --symmetry", "half the states, the same verdict"),
        ("kvspec explore peer 1,1,1,2,2 --coverage", "which guards refused, how often"),
        ("kvspec explore peer 2,2,2,3,4 --max-states 100000", "ends with unknown"),
        ("kvspec explore --json", "for a program"),
    ),
    "prove": (
        ("kvspec prove", "the core system, with z3"),
        ("kvspec prove peer --solver both", "cvc5 as well, on the same formulas"),
        ("kvspec prove --only 'step:*:publish'", "some obligations alone"),
        ("kvspec prove peer --smtlib peer-smtlib", "write them as files"),
    ),
}


def example_text(command: str) -> str:
    """The examples of a command, one a line."""
    examples = EXAMPLES[command]
    width = max(len(line) for line, _ in examples)
    return "\n".join(f"    {line:{width}}  {meaning}" for line, meaning in examples)
