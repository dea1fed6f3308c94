"""Small systems that use every construct of the language, so that engines can be compared on them."""

from kvspec.spec.language import (
    ANY,
    Bool,
    Enum,
    ErrorCode,
    Map,
    Module,
    Natural,
    Open,
    Option,
    Properties,
    Step,
    System,
    after,
    bijective,
    exists,
    fired,
    forall,
    implies,
    instance,
    is_some,
    limit,
    member,
    none,
    one_of,
    the,
    where,
)


class Row(Open):
    """A row."""


class Owner(Open):
    """An owner."""


class Count(Natural):
    """A count."""


class Colour(Enum):
    """A colour."""

    RED = member()
    GREEN = member()
    BLUE = member()


everything = Module("everything", "One of each construct.")
owner = everything.variable("owner", Row, to=Option[Owner], init=none(Owner), meaning="owner")
colour = everything.variable("colour", Row, to=Colour, init=ANY, meaning="colour")
count = everything.variable("count", Owner, to=Count, init=0, meaning="rows owned")
mark = everything.variable("mark", Row, Colour, to=Bool, init=False, meaning="marks")
last = everything.variable("last", to=Row, init=ANY, meaning="the last row")

TAKEN = ErrorCode("TAKEN", "the row has an owner")
FREE = ErrorCode("FREE", "the row has no owner")
MANY = ErrorCode("MANY", "too many")
WRONG = ErrorCode("WRONG", "wrong number")
NO_BIJECTION = ErrorCode("NO_BIJECTION", "no bijection")
STALE = ErrorCode("STALE", "stale")


@everything.action
def take(step: Step, r: Row, o: Owner, n: Count) -> None:
    """An owner takes a row; the number of rows it had must be given."""
    step.require(~is_some(owner[r]), TAKEN)
    step.require(n == count[o] + 1, WRONG, refused={colour[r]: Colour.RED})
    step.require(n <= 2, MANY)
    step.assign(owner[r], o)
    step.assign(count[o], n)
    step.assign(last.value, r)


@everything.action
def give(step: Step, r: Row, p: Option[Owner]) -> None:
    """A row passes to another owner, or to nobody."""
    step.require(is_some(owner[r]), FREE)
    step.require(owner[r] != p, STALE)
    step.assign(owner[r], p)
    step.assign(count[the(owner[r])], count[the(owner[r])] - 1)
    step.assign(last.value, where(colour[r] == Colour.RED, r, last.value))


@everything.action
def shuffle(step: Step, f: Map[Row, Row], c: Colour) -> None:
    """Rows change places."""
    step.require(bijective(f), NO_BIJECTION)
    step.require(exists(Row, lambda r: f[r] != r), WRONG)
    step.require(colour[last.value] == c, STALE)
    for r in step.every(Row):
        step.assign(colour[r], colour[f[r]])
    step.assign(last.value, f[last.value])


@everything.action
def paint(step: Step, s: Map[Row, Bool], c: Colour, b: Bool) -> None:
    """Rows get marks."""
    step.require(exists(Row, lambda r: s[r]) == b, WRONG)
    step.require(forall(Row, lambda r: implies(s[r], colour[r] == c)), STALE)
    for r in step.every(Row):
        step.assign(mark[r, c], mark[r, c] | s[r])
    step.assign(count[the(owner[last.value])], count[the(owner[last.value])] + 1)


system = System.of("everything", "One of each construct.", everything)
properties = Properties(system)


@properties.invariant
def counts_stay_small():
    """No owner has counted past three."""
    return forall(Owner, lambda o: implies(exists(Row, lambda r: owner[r] == o), count[o] <= 3))


@properties.step
def marks_stay():
    """Marks are never taken away, and only paint sets them."""
    return forall(Row, Colour, lambda r, c: implies(after(mark[r, c]), mark[r, c] | fired(paint)))


@properties.step
def wrong_numbers_make_red():
    """A refusal for a wrong number makes some row red."""
    return implies(
        fired(take, refused=WRONG), exists(Row, lambda r: after(colour[r]) == Colour.RED)
    )


@properties.witness
def reaches_two_colours():
    """A red and a green row have one owner."""
    return exists(
        Row,
        Row,
        lambda a, b: (
            (colour[a] == Colour.RED)
            & (colour[b] == Colour.GREEN)
            & is_some(owner[a])
            & (owner[a] == owner[b])
        ),
    )


@limit(shuffle)
def shuffles_of_known_colours(c):
    """Blue rows are not shuffled."""
    return one_of(c, Colour.RED, Colour.GREEN) & (count[the(none(Owner))] < Count.top)


def make(name, rows, owners, counts, **more):
    """An instance by its sizes."""
    return instance(name, system, {Row: rows, Owner: owners, Count: counts}, **more)


TWO = make("two", 2, 1, 2, limits=(shuffles_of_known_colours,), initial={colour: Colour.GREEN})
WIDE = make("wide", 2, 2, 2, initial={colour: Colour.RED})
ANYWHERE = make("anywhere", 2, 1, 1)
