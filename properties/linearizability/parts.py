"""Parts: which operations are checked apart, and one order made of the orders of the parts.

Operations whose classes conflict, directly or through others, are in one part. Orders of the parts that
each keep real time and the clients' own order go together into one that does (Herlihy and Wing's
locality), except where clients ask again at the very tick at which they were answered: two such clients
at one tick may demand a circle of four operations, in two parts. What touches like this at one tick is
therefore put into one part.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np


def joined(labels: Any, clients: Any, invoked: Any, returned: Any) -> Any:
    """The labels of operations, made equal for those of clients that touch at one tick.

    Operations stand client by client. Two touch if the second of a client is asked at the tick at which
    the first is answered.
    """
    touching = np.flatnonzero((clients[1:] == clients[:-1]) & (invoked[1:] == returned[:-1]))
    ticks = returned[touching]
    if np.unique(ticks).shape[0] == ticks.shape[0]:
        return labels
    touching = touching[np.argsort(ticks, kind="stable")]
    instead = {label: label for label in np.unique(labels).tolist()}

    def root(label: int) -> int:
        while instead[label] != label:
            label = instead[label]
        return label

    for _, pairs in groupby(touching.tolist(), key=lambda place: int(returned[place])):
        places = list(pairs)
        if len(places) > 1:
            found = {root(int(labels[n])) for place in places for n in (place, place + 1)}
            least = min(found)
            instead |= dict.fromkeys(found, least)
    return np.array([root(label) for label in labels.tolist()], np.int64)


def merged(
    orders: list[list[int]], clients: dict[int, int], invoked: dict[int, int]
) -> tuple[int, ...]:
    """One linearization of all parts, from one of each.

    clients, invoked: of each place in the history; a client's own order is that of its places. Each
    operation comes at the latest call of those up to it in its part, so that real time is kept; among
    those of one moment the clients' own order is kept.
    """
    if len(orders) == 1:
        return tuple(orders[0])
    moments: list[tuple[int, int, int, int]] = []
    for part, order in enumerate(orders):
        moment = -1
        for number, place in enumerate(order):
            moment = max(moment, invoked[place])
            moments.append((moment, part, number, place))
    whole: list[int] = []
    for _, group in groupby(sorted(moments), key=lambda each: each[0]):
        by_part: dict[int, deque[int]] = {}
        for _, part, _, place in group:
            by_part.setdefault(part, deque()).append(place)
        whole.extend(_of_one_moment(list(by_part.values()), clients))
    return tuple(whole)


def _of_one_moment(parts: list[deque[int]], clients: dict[int, int]) -> Iterator[int]:
    """The operations of one moment, each after those before it in its part and of its client."""
    own: dict[int, deque[int]] = {}
    for place in sorted(place for part in parts for place in part):
        own.setdefault(clients[place], deque()).append(place)
    while parts:
        before = sum(map(len, parts))
        for part in parts:
            while part and own[clients[part[0]]][0] == part[0]:
                own[clients[part[0]]].popleft()
                yield part.popleft()
        parts = [part for part in parts if part]
        if sum(map(len, parts)) == before:
            raise RuntimeError(f"the orders of the parts go round in a circle at {parts}")
