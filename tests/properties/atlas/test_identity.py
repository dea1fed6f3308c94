"""What the traces of A-B30 to A-B33 show: which fields differ where rows are read, and which do not."""

import pytest

from kvspec.models.concrete import Machine
from kvspec.properties.atlas.identity import ADAPTERS, COLLISIONS, LABELS, TIERS
from kvspec.properties.atlas.run import search_faulty
from kvspec.spec import identity

FIELDS = [*(field.name for field in identity.FIELDS), "adapter_epoch"]
CASES = [
    *((case, ["adapter"]) for case in ADAPTERS.cases[:1]),
    (ADAPTERS.cases[2], ["adapter_epoch"]),
    *((case, ["images"]) for case in COLLISIONS.cases),
    *zip(
        TIERS.cases,
        (["salt"], ["adapter"], ["images"], ["weights"], ["adapter_epoch"]),
        strict=True,
    ),
    *zip(LABELS.cases, (["adapter", "salt"], ["mask"], ["adapter", "salt"], ["mask"]), strict=True),
]


def end_of(case):
    """The last step of the trace of a case: who reads what, as values by name; and the sound rule's code."""
    (found,) = search_faulty(case).violations
    machine = Machine(case.fault.on(case.instance))
    last = found.trace[-1]
    slot = machine.value(last.state, "reads", dict(last.event.values)["r"])
    rows = machine.value(last.state, "slot_rows", slot)
    asked = machine.value(last.state, "asks", dict(last.event.values)["r"])
    code = Machine(case.instance).step(found.trace[-2].state, last.event).code
    return [
        {name: machine.value(last.state, name, i) for name in (*FIELDS, "digest")}
        for i in (rows, asked)
    ], code


@pytest.mark.parametrize(("case", "fields"), CASES, ids=lambda value: getattr(value, "shows", ""))
def test_rows_are_read_that_differ_in_the_field(case, fields):
    """Rows and request differ in the field that the rule lacks and in no other; the sound rule says so."""
    (rows, asked), code = end_of(case)
    assert [name for name in FIELDS if rows[name] != asked[name]] == fields
    assert code == case.fault.code


@pytest.mark.parametrize("case", [COLLISIONS.cases[0], COLLISIONS.cases[2]])
def test_both_images_have_one_digest(case):
    """The images of request and rows are two, and their digests one (A-B31)."""
    (rows, asked), _ = end_of(case)
    assert rows["images"] != asked["images"]
    assert rows["digest"] == asked["digest"]


def test_a_salt_is_the_name_of_an_adapter():
    """One identity has the name as its adapter set alone, the other as its salt alone (A-B33)."""
    for case in (LABELS.cases[0], LABELS.cases[2]):
        found = {(i["adapter"], i["salt"]) for i in end_of(case)[0]}
        assert found == {(0, None), (None, 0)}
