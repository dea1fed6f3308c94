"""Profiles: how much a run does, by name; the same names as Hypothesis profiles.

dev    the default: random seeds, so that every run sees something new
ci     the same size, but always the same run
deep   many times the size, for a night
"""

from __future__ import annotations

import os

import attrs
from hypothesis import settings


@attrs.frozen
class Profile:
    """The size of a run.

    examples: Hypothesis examples that do something. repeats: how often each planned walk is to be
    drawn. length, walks: most events of a planned walk, most walks. is_fixed: the seed is 0 unless
    one is given. others: examples of a Hypothesis test that says nothing else.
    """

    name: str
    examples: int
    repeats: int
    length: int = 50
    walks: int = 1200
    is_fixed: bool = False
    others: int = 100


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("dev", examples=250, repeats=4),
        Profile("ci", examples=250, repeats=4, is_fixed=True),
        Profile("deep", examples=5000, repeats=10, walks=20_000, length=60, others=2000),
    )
}


def find_profile(name: str) -> Profile:
    """The profile of that name, or an error that lists all of them."""
    if name not in PROFILES:
        raise KeyError(f"no profile {name!r}; there are {', '.join(PROFILES)}")
    return PROFILES[name]


def register_profiles() -> None:
    """Make the profiles known to Hypothesis and load the one that HYPOTHESIS_PROFILE names.

    Without that variable it is `ci` where CI is set, and `dev` elsewhere.
    """
    for profile in PROFILES.values():
        settings.register_profile(
            profile.name,
            max_examples=profile.others,
            deadline=None,
            derandomize=profile.is_fixed,
            print_blob=profile.is_fixed,
        )
    settings.load_profile(_asked_for())


def current_profile() -> str:
    """The profile that the environment names, or else the one that is loaded in Hypothesis.

    Hypothesis loads its own `ci` where CI is set, so a loaded profile says less than a name.
    """
    if os.environ.get("HYPOTHESIS_PROFILE"):
        return _asked_for()
    loaded = getattr(settings, "get_current_profile_name", None)  # older versions do not tell
    if loaded is not None and loaded() in PROFILES:
        return str(loaded())
    return _asked_for()


def _asked_for() -> str:
    return os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
