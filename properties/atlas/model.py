"""What a group of the atlas is: a fault seen in public, and the rules whose change shows it again."""

from __future__ import annotations

from enum import Enum

import attrs

from kvspec.properties.faults import Fault
from kvspec.spec.language import DefinitionError, Instance, Properties, Property


class Evidence(Enum):
    """How well a group is known: a fix was merged, the fault was reproduced, or it was argued."""

    MERGED = "a fix was merged"
    REPRODUCED = "reproduced or measured by who reported it"
    ANALYSIS = "found by analysis alone"


@attrs.frozen(eq=False)
class Case:
    """A fault, the claim that it breaks, and the smallest instance on which it does.

    shows: what the trace shows, as a sentence. claim: the name of a claim among `properties`, or of an
    `end` claim that a deadlock breaks. instance: of the sound system; no size, bound or constant of it
    can be one less.
    """

    shows: str
    fault: Fault
    properties: Properties
    claim: str
    instance: Instance

    def __attrs_post_init__(self) -> None:
        if not (self.fault.system is self.properties.system is self.instance.system):
            raise DefinitionError(
                f"{self.fault.name}: the fault is of {self.fault.system.name}, the claims of "
                f"{self.properties.system.name}, the instance of {self.instance.system.name}: give all "
                "three of one system"
            )
        self.property  # noqa: B018  # a claim that is not there is told here

    @property
    def property(self) -> Property:
        """The claim that the fault breaks."""
        return self.properties[self.claim]


@attrs.frozen(eq=False)
class Group:
    """A group of public faults with one cause.

    name: `A-B01`. kind: the heading that it stands under. sources: the public threads. happened: the
    steps, in order. cases: the first shows the group, the rest its variants. open: why it cannot be
    expressed, where it cannot.
    """

    name: str
    title: str
    kind: str
    evidence: Evidence
    sources: tuple[str, ...]
    happened: tuple[str, ...]
    cases: tuple[Case, ...]
    open: str = ""

    def __attrs_post_init__(self) -> None:
        if bool(self.cases) == bool(self.open):
            raise DefinitionError(
                f"{self.name} has {len(self.cases)} cases and is open for {self.open or 'no reason'}: "
                "give cases, or the reason why there are none"
            )
