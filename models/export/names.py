"""Names that a checker's language lets pass: its keywords and standard operators are stepped around.

`len` is a keyword of Promela; `Len` is an operator of TLA+; both languages, and the C that Spin
writes, have words that a specification in Python may use freely. A name in the way gets an
underscore at its end, and a further one until it is new.
"""

from __future__ import annotations

import keyword

import attrs


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PROMELA_WORDS = _words(
    """
    active always assert atomic bit bool break byte c_code c_decl c_expr c_state c_track chan
    d_proctype d_step do else empty enabled equivalent eval eventually false fi for full
    get_priority goto hidden if implies in init inline int len local ltl mtype nempty never next
    nfull notrace np_ od of pc_value pid print printf printm priority proctype provided release
    return run select set_priority short show skip stronguntil trace true timeout typedef unless
    unsigned until weakuntil xr xs
    """
)
"""What Spin reads as a keyword, LTL included."""

C_WORDS = _words(
    """
    auto break case char const continue default do double else enum extern float for goto if inline
    int long main now register restrict return short signed sizeof static struct switch typedef
    uchar uint ulong union unix linux unsigned ushort void volatile while
    """
)
"""What the C compiler or Spin's generated C reads otherwise than as a name."""

TLA_WORDS = _words(
    """
    ACTION ASSUME ASSUMPTION AXIOM BY CASE CHOOSE CONSTANT CONSTANTS COROLLARY DEF DEFINE DEFS
    DOMAIN ELSE ENABLED EXCEPT EXTENDS HAVE HIDE IF IN INSTANCE LAMBDA LEMMA LET LOCAL MODULE NEW
    OBVIOUS OMITTED ONLY OTHER PICK PROOF PROPOSITION PROVE QED RECURSIVE SF_ STATE SUBSET SUFFICES
    TAKE TEMPORAL THEN THEOREM UNCHANGED UNION USE VARIABLE VARIABLES WF_ WITH WITNESS
    BOOLEAN STRING TRUE FALSE
    Int Nat Real Infinity Seq Len Head Tail Append SubSeq SelectSeq Cardinality IsFiniteSet
    Any Assert JavaTime Permutations Print PrintT RandomElement SortSeq TLCEval TLCGet TLCSet ToString
    """
)
"""What TLA+ reserves, and what Integers, Sequences, FiniteSets and TLC define."""

TLA_OWN = _words("Bijective Event InBounds Init Next NoDeadlock Spec Symmetry TypeOK vars")
"""Operators that every exported module may define itself."""


def plain_name(name: str) -> str:
    """The name in letters that both languages have."""
    text = "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"u{ord(c):x}" for c in name)
    return text if text.strip("_") and not text[0].isdigit() else f"n{text}"


@attrs.define
class Names:
    """Names in use in one scope, and the text under which each thing goes there."""

    taken: set[str]
    upper_is_macro: bool = False

    def fresh(self, name: str) -> str:
        """A text for `name` that nothing here uses, kept from then on."""
        text = self.candidate(name)
        self.taken.add(text)
        return text

    def candidate(self, name: str) -> str:
        """As `fresh`, without keeping it."""
        text = plain_name(name)
        if self.upper_is_macro and (text.isupper() or text.startswith("_")):
            text += "_"
        if text.startswith(("WF_", "SF_")):
            text = f"n{text}"
        while text in self.taken:
            text += "_"
        return text


def promela_names() -> Names:
    """An empty scope of a Promela model, with the words of Promela and C taken."""
    return Names(set(PROMELA_WORDS | C_WORDS), upper_is_macro=True)


def tla_names() -> Names:
    """An empty scope of a TLA+ module."""
    return Names(set(TLA_WORDS | TLA_OWN))


def identifier(text: str) -> str:
    """Any text, such as the name of an instance, as one identifier."""
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in text).strip("_") or "unnamed"
    return f"_{name}" if name[0].isdigit() or keyword.iskeyword(name) else name
