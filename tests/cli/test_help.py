"""Help teaches by example."""

import shlex

import pytest

from kvspec.cli.examples import EXAMPLES
from kvspec.cli.main import COMMANDS, app


def test_every_command_has_examples() -> None:
    """There are examples for every command, and for nothing else."""
    assert list(EXAMPLES) == list(COMMANDS)


@pytest.mark.parametrize("command", EXAMPLES)
def test_the_help_of_a_command_shows_its_examples(kvspec, command: str) -> None:
    """`--help` prints the examples, each on one line, and the exit codes."""
    ran = kvspec(command, "--help")
    assert ran.code == 0
    for line, meaning in EXAMPLES[command]:
        assert any(line in printed and meaning in printed for printed in ran.out.splitlines())
    assert "3 unknown" in ran.out


@pytest.mark.parametrize(
    "line", [line for examples in EXAMPLES.values() for line, _ in examples], ids=str
)
def test_every_example_is_understood(line: str) -> None:
    """The parser takes each example as it is printed."""
    program, *words = shlex.split(line)
    assert program == "kvspec"
    app.parse_args(words, exit_on_error=False, print_error=False)


def test_the_help_lists_all_commands(kvspec) -> None:
    """`kvspec --help` tells every command, and so does kvspec without anything."""
    for words in (("--help",), ()):
        ran = kvspec(*words)
        assert ran.code == 0
        assert all(f"{name} " in ran.out for name in EXAMPLES)


def test_the_version_is_told(kvspec) -> None:
    """`--version` prints the version alone."""
    import kvspec as package

    assert kvspec("--version").out.strip() == package.__version__
