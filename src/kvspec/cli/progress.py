"""Progress bars on stderr, for people alone: there are none where stderr is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvspec.models.explicit import Progress

Explored = Callable[["Progress"], None]
Counted = Callable[[int, int, str], None]


def is_shown() -> bool:
    """Whether somebody is looking."""
    return sys.stderr.isatty()


@contextmanager
def exploring(title: str) -> Iterator[Explored | None]:
    """A line with states, states a second, frontier and depth, for the explicit engine."""
    if not is_shown():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title)

        def told(now: Progress) -> None:
            bar.update(
                task,
                description=(
                    f"{title}: {now.states:,} states, {now.per_second:,.0f} a second, "
                    f"frontier {now.frontier:,}, depth {now.depth}"
                ),
            )

        yield told


@contextmanager
def counting(title: str) -> Iterator[Counted | None]:
    """A bar with how many of how many are done, and the name of the last."""
    if not is_shown():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def told(done: int, total: int, name: str) -> None:
            bar.update(task, completed=done, total=total, description=name)

        yield told
