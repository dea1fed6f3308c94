"""The text's figures of bytes, from their inputs."""

import pytest

from kvspec.spec import formulas as f

TINY = {"cache_layers": 2, "kv_heads": 2, "head_width": 4, "key_bytes": 2, "value_bytes": 2}
LLAMA = {"cache_layers": 32, "kv_heads": 8, "head_width": 128, "key_bytes": 2, "value_bytes": 2}
KIB, MIB, GIB = 2**10, 2**20, 2**30


def test_one_token_of_the_fixture() -> None:
    """Two layers of two heads of four scalars, two bytes each in K and in V: 64 bytes a token."""
    assert f.token_bytes(**TINY) == 64


@pytest.mark.parametrize("control", ["cache_layers", "kv_heads", "head_width"])
def test_doubling_one_control_gives_128(control: str) -> None:
    """Each of layers, heads and width doubles the bytes of a token."""
    assert f.token_bytes(**TINY | {control: 2 * TINY[control]}) == 128


def test_narrow_scalars_give_32() -> None:
    """One byte for each scalar halves the bytes of a token."""
    assert f.token_bytes(**TINY | {"key_bytes": 1, "value_bytes": 1}) == 32


@pytest.mark.parametrize(
    ("heads", "token", "whole"), [(8, 128 * KIB, 512 * MIB), (32, 512 * KIB, 2 * GIB)]
)
def test_grouped_and_full_heads(heads: int, token: int, whole: int) -> None:
    """GQA: 128 KiB a token and 512 MiB for 4096; MHA: 512 KiB and 2 GiB."""
    beta = f.token_bytes(**LLAMA | {"kv_heads": heads})
    assert beta == token
    assert f.committed_bytes(4096, beta) == f.logical_bytes([4096], beta) == whole


def test_a_call_stages_32_bytes_a_layer() -> None:
    """One token of one request: 32 bytes in a layer, 64 in both, whatever the query heads are."""
    row = {name: value for name, value in TINY.items() if name != "cache_layers"}
    assert f.layer_append_bytes(1, 1, **row) == 32
    assert f.append_bytes(2, 1, 1, **row) == 64
    for query_heads in (4, 8):
        assert f.model_token_bytes(query_heads=query_heads, **TINY) == 64
        assert f.query_group(query_heads, 2) == query_heads // 2


def test_padding_of_five_and_two() -> None:
    """Lengths 5 and 2: 448 bytes are real, the rectangle has 640, so 192 are padding."""
    logical, rectangular = f.logical_bytes([5, 2], 64), f.rectangular_bytes([5, 2], 64)
    assert (logical, rectangular, f.phantom_bytes(rectangular, logical)) == (448, 640, 192)


def test_the_fixture_of_the_manifest() -> None:
    """Four tokens committed and eight reserved: 256 and 512 bytes."""
    assert (f.committed_bytes(4, 64), f.reserved_bytes(8, 64)) == (256, 512)


# tau, committed lengths, copies and capacities of A and B, workspace, and the five ledgers of the text:
# logical, materialized, reserved, physical, with workspace.
A, B = (1, 8), (2, 4)
TRAJECTORY = [
    (0, [], [], 0, (0, 0, 0, 0, 0)),
    (1, [4], [A], 96, (256, 256, 512, 528, 624)),
    (3, [4, 2], [A, B], 96, (384, 512, 1024, 1072, 1168)),
    (4, [5, 2], [A, B], 32, (448, 576, 1024, 1072, 1104)),
    (5, [5, 3], [A, B], 32, (512, 704, 1024, 1072, 1104)),
    (6, [5, 3], [A, B], 0, (512, 704, 1024, 1072, 1072)),
    (7, [3], [B], 0, (192, 384, 512, 544, 544)),
    (8, [4], [B], 32, (256, 512, 512, 544, 576)),
]


@pytest.mark.parametrize(("tau", "lengths", "owners", "workspace", "expected"), TRAJECTORY)
def test_the_ledgers_of_the_trajectory(tau, lengths, owners, workspace, expected) -> None:
    """Every cut of the two-request trace, with 16 bytes of metadata a copy."""
    copies, capacities = [c for c, _ in owners], [c for _, c in owners]
    reserved = f.reserved_capacity_bytes(capacities, copies, 64)
    physical = f.physical_bytes(reserved, f.allocator_bytes(copies, 16))
    assert (
        f.logical_bytes(lengths, 64),
        f.materialized_bytes(lengths, copies, 64),
        reserved,
        physical,
        f.instantaneous_bytes(physical, workspace),
    ) == expected, f"tau={tau}"


def test_the_overheads_at_tau_5() -> None:
    """Replication 192, slack 320, allocator 48; 800 bytes on the GPU and 272 on the host."""
    materialized, logical = f.materialized_bytes([5, 3], [1, 2], 64), f.logical_bytes([5, 3], 64)
    reserved = f.reserved_capacity_bytes([8, 4], [1, 2], 64)
    assert f.replication_overhead_bytes(materialized, logical) == 192
    assert f.reservation_slack_bytes(reserved, materialized) == 320
    assert f.allocator_bytes([1, 2], 16) == 48
    assert f.resident_bytes([8, 4], [1, 1], 64, 16) == 800
    assert f.resident_bytes([8, 4], [0, 1], 64, 16) == f.copy_bytes(4, 64, 16) == 272


def test_the_base_of_the_sensitivity_suite() -> None:
    """64, 512, 704, 640, 128."""
    beta = f.token_bytes(**TINY)
    logical, rectangular = f.logical_bytes([5, 3], beta), f.rectangular_bytes([5, 3], beta)
    materialized = f.materialized_bytes([5, 3], [1, 2], beta)
    found = (beta, logical, materialized, rectangular, f.phantom_bytes(rectangular, logical))
    assert found == (64, 512, 704, 640, 128)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda: f.token_bytes(0, 2, 4, 2, 2),
            "cache_layers = 0, expected at least 1: give L_cache",
        ),
        (lambda: f.token_bytes(2, 2, 4.0, 2, 2), "head_width = 4.0, expected a whole number"),
        (lambda: f.token_bytes(2, 2, 4, True, 2), "key_bytes = True, expected a whole number"),
        (lambda: f.logical_bytes([5, -1], 64), r"lengths\[1\] = -1, expected at least 0: give T_i"),
        (
            lambda: f.materialized_bytes([5, 2], [1], 64),
            "lengths has 2, copies has 1 members, expected",
        ),
        (lambda: f.materialized_bytes([5], [0], 64), r"copies\[0\] = 0, expected at least 1"),
        (
            lambda: f.phantom_bytes(1, 2),
            "found rectangular = 1, logical = 2, expected that the rectangle",
        ),
        (
            lambda: f.replication_overhead_bytes(1, 2),
            "expected that what is materialized is no less",
        ),
        (lambda: f.reservation_slack_bytes(1, 2), "expected that what is reserved is no less"),
        (lambda: f.query_group(5, 2), "expected that H_kv divides H_q"),
        (lambda: f.instantaneous_bytes(0, -1), "workspace = -1, expected at least 0"),
    ],
)
def test_what_is_no_ledger_is_refused(call, told: str) -> None:
    """The error says what was found, what was expected, and what to give."""
    with pytest.raises(ValueError, match=told):
        call()


def test_generators_are_taken() -> None:
    """A column may be any iterable, and is walked once."""
    assert f.rectangular_bytes((n for n in (5, 2)), 64) == 640
