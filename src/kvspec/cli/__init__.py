"""The command line: `kvspec` and its commands, each loaded when it is used."""

from kvspec.cli.main import main

__all__ = ["main"]
