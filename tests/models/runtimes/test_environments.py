"""The environments of the two releases: pinned one by one, and nothing twice."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def pins(name):
    """The pins of a file, by name in lower case with dashes."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    found = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9._-]+==[0-9][0-9a-z.]*", pin) for pin in found)
    return {pin.split("==")[0].replace("_", "-"): pin.split("==")[1] for pin in found}


@pytest.mark.parametrize("major", [4, 5])
def test_a_release_is_pinned_beside_what_all_tests_share(major):
    """Each file has its release, and no library that constraints.txt pins to another version."""
    shared, own = pins("constraints.txt"), pins(f"constraints-transformers-{major}.txt")
    assert own["transformers"].split(".")[0] == str(major)
    assert set(shared) & set(own) == {"transformers"}
    assert {"huggingface-hub", "safetensors", "tokenizers"} <= set(own)
    assert "torch" in shared


def test_the_releases_are_4_57_0_and_the_one_in_constraints_txt():
    """The older release is the one that the requirement names; the newer is pinned alike in both files."""
    assert pins("constraints-transformers-4.txt")["transformers"] == "4.57.0"
    newer = pins("constraints-transformers-5.txt")["transformers"]
    assert newer == pins("constraints.txt")["transformers"]
