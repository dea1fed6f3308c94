"""The pytest plugin: `pytest --kvspec-backend module:factory` tests a cache, each rule an item.

Without the option nothing is imported and nothing is added. With it, the items `kvspec::RULE` follow
those of the repository, so that `-k`, `--collect-only`, reports and parallel runs are as usual; all of
them share one run of the suite, made when the first of them is due.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvspec.properties.conformance.report import Report
    from kvspec.properties.conformance.rules import Rule
    from kvspec.properties.conformance.xfails import Xfail

BACKEND, INSTANCE, XFAILS, BUDGET = (
    "--kvspec-backend",
    "--kvspec-instance",
    "--kvspec-xfails",
    "--kvspec-budget",
)
WHOLE = "--kvspec-whole"
RUN = pytest.StashKey["SharedRun"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, in a group of their own."""
    group = parser.getgroup("kvspec", "conformance of a KV cache with its specification")
    group.addoption(
        BACKEND, metavar="MODULE:FACTORY",
        help="what makes the cache under test: an Adapter (kvspec.models.adapter) or a Backend",
    )  # fmt: skip
    group.addoption(
        INSTANCE, action="append", default=[], metavar="NAME",
        help="try this instance alone, such as TINY; may be given again (default: the suite)",
    )  # fmt: skip
    group.addoption(
        WHOLE, action="store_true",
        help="try every call in every state of each instance, not each kind of call once",
    )  # fmt: skip
    group.addoption(
        XFAILS, metavar="FILE", help="known failures: lines of a rule, # and the reason"
    )
    group.addoption(
        BUDGET, type=_seconds, metavar="SECONDS",
        help="stop after so many seconds; what was not tried is then unknown, and fails",
    )  # fmt: skip


def _seconds(text: str) -> float:
    """A budget: a number above nothing."""
    seconds = float(text)
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"found {text}, expected a number of seconds above 0")
    return seconds


def pytest_configure(config: pytest.Config) -> None:
    """Refuse options that say nothing without a cache."""
    target = config.getoption(BACKEND)
    if target == "":
        raise pytest.UsageError(f"{BACKEND} is empty: give it module:factory, or leave it out")
    if target is not None:
        return
    for option in (INSTANCE, XFAILS, BUDGET, WHOLE):
        if config.getoption(option) not in (None, [], False):
            raise pytest.UsageError(f"{option} needs {BACKEND} module:factory")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add an item for each rule and for each known failure; first, so that `-k` sees them."""
    target = config.getoption(BACKEND)
    if not target:
        return
    from kvspec.properties.conformance.errors import AdapterError

    try:
        shared = config.stash[RUN] = SharedRun(config, target)
    except AdapterError as error:
        raise pytest.UsageError(str(error)) from error
    suite = Suite.from_parent(session, name="kvspec", nodeid="kvspec")
    items.extend(RuleItem.from_parent(suite, name=name, rule=r) for name, r in shared.rules.items())
    items.extend(
        XfailItem.from_parent(suite, name=f"xfails/{entry.rule}", entry=entry)
        for entry in shared.xfails
    )


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The table of the whole run, after the failures."""
    shared = config.stash.get(RUN, None)
    if shared is not None and shared.done is not None:
        terminalreporter.section("kvspec conformance")
        terminalreporter.write_line(shared.done.table())


class SharedRun:
    """The cache, the rules, and the one run that all items share."""

    def __init__(self, config: pytest.Config, target: str) -> None:
        from kvspec.properties.conformance.run import every_rule, load_factory
        from kvspec.properties.conformance.subject import make_subject
        from kvspec.properties.conformance.suite import part_named
        from kvspec.properties.conformance.xfails import read_xfails
        from kvspec.spec.core import system

        self.target = target
        self.rules: dict[str, Rule] = every_rule()
        self.instances: list[str] = list(config.getoption(INSTANCE))
        self.budget: float | None = config.getoption(BUDGET)
        self.whole: bool = config.getoption(WHOLE)
        path = config.getoption(XFAILS)
        self.xfails: tuple[Xfail, ...] = () if path is None else read_xfails(Path(path))
        self.done: Report | None = None
        for name in self.instances:
            part_named(name)
        make_subject(load_factory(target)[0], system, target)

    def report(self, session: pytest.Session) -> Report:
        """The run, made now if it was not; about the rules that are selected in this session."""
        if self.done is None:
            from kvspec.properties.conformance.errors import AdapterError
            from kvspec.properties.conformance.run import run_conformance
            from kvspec.properties.conformance.xfails import excused

            chosen = [item.name for item in session.items if isinstance(item, RuleItem)]
            chosen += [item.entry.rule for item in session.items if isinstance(item, XfailItem)]
            only = [name for name in self.rules if name in chosen]
            try:
                found = run_conformance(
                    self.target,
                    instances=self.instances,
                    budget=self.budget,
                    only=only,
                    whole=self.whole,
                )
            except AdapterError as error:
                pytest.exit(str(error), returncode=pytest.ExitCode.USAGE_ERROR)
            self.done = excused(found, self.xfails, self.rules)
        return self.done


class RuleFailed(Exception):  # noqa: N818 - it is what is found, not an error of this program
    """A rule is broken, or could not be judged; the message is all that there is to say."""


class Suite(pytest.Collector):
    """The parent of all items of this plugin."""

    def collect(self) -> Iterator[pytest.Item]:
        """Nothing: the items are made where the session has collected its own."""
        yield from ()


class _Item(pytest.Item):
    def shared(self) -> Report:
        return self.config.stash[RUN].report(self.session)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What is to be said of the rule, without a traceback of this plugin."""
        if isinstance(excinfo.value, RuleFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)


class RuleItem(_Item):
    """One rule: passed if kept, failed if broken or unknown, skipped if not offered."""

    def __init__(self, *, rule: Rule, **more: Any) -> None:
        super().__init__(**more)
        self.rule = rule

    def runtest(self) -> None:
        """Look at what the shared run found."""
        report = self.shared()
        found = report.results[self.rule.id]
        if found.known is not None:
            pytest.xfail(f"{found.verdict}; known: {found.known}")
        if found.is_broken:
            raise RuleFailed(report.pages[self.rule.id])
        if found.verdict == "unknown":
            raise RuleFailed(f"{self.rule.id}: {self.rule.sentence}: unknown, {found.reason}")
        if found.verdict != "kept":
            pytest.skip(f"{found.verdict}: {found.reason}")

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the specification says it."""
        file, line = self.rule.place or (__file__, 1)
        return Path(file), line - 1, f"kvspec::{self.rule.id}"


class XfailItem(_Item):
    """One entry of the list of known failures: failed if it excuses nothing."""

    def __init__(self, *, entry: Xfail, **more: Any) -> None:
        super().__init__(**more)
        self.entry = entry

    def runtest(self) -> None:
        """Fail where the entry is stale."""
        stale = self.shared().stale.get(self.entry.rule)
        if stale is not None:
            raise RuleFailed(f"stale entry: {stale}")

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The line of the file."""
        file, _, line = self.entry.where.rpartition(":")
        return Path(file), int(line) - 1, f"kvspec::{self.name}"
