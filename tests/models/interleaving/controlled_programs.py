"""Small programs under control, whose answers are obvious."""

from kvspec.models.interleaving import ControlledLock, Run, Scheduler, Strategy


def counting(strategy: Strategy, clients: int = 2) -> tuple[Run, int]:
    """Each client reads a counter and writes one more: an update is lost if two read before one writes."""
    scheduler, box = Scheduler(strategy), {"n": 0}

    def client() -> None:
        scheduler.point("read")
        found = box["n"]
        scheduler.point("write")
        box["n"] = found + 1

    run = scheduler.run([client] * clients)
    return run, box["n"]


def steps(strategy: Strategy, lengths: tuple[int, ...]) -> tuple[Run, tuple[int, ...]]:
    """Clients that take so many steps each and share nothing; what came of it is the order."""
    scheduler, order = Scheduler(strategy), []

    def client(number: int, length: int):
        def body() -> None:
            for place in range(length):
                scheduler.point(f"step {place}")
                order.append(number)

        return body

    run = scheduler.run([client(n, length) for n, length in enumerate(lengths)])
    return run, tuple(order)


def crossing(strategy: Strategy) -> tuple[Run, None]:
    """Two clients take two locks in opposite orders."""
    scheduler = Scheduler(strategy)
    first, second = ControlledLock(scheduler, "first"), ControlledLock(scheduler, "second")

    def client(outer: ControlledLock, inner: ControlledLock):
        def body() -> None:
            with outer, inner:
                pass

        return body

    return scheduler.run([client(first, second), client(second, first)]), None


def there_and_back(strategy: Strategy) -> tuple[Run, bool]:
    """A reader looks twice at a value that one client moves and another moves back: needs two stops."""
    scheduler, box, seen = Scheduler(strategy), {"n": 0}, []

    def reader() -> None:
        for _ in range(3):
            scheduler.point("look")
            seen.append(box["n"])

    def mover(by: int):
        def body() -> None:
            scheduler.point("move")
            box["n"] += by

        return body

    run = scheduler.run([reader, mover(1), mover(-1)])
    return run, seen == [0, 1, 0]
