"""Random numbers are bit-identical to SplitMix64, wherever they are computed."""

import random

import numpy as np
import pytest
import torch
from helpers.chi_square import is_uniform

from accel_train.rng import fractions, hash_ids, integers, make_key, seed_libraries, signed

GAMMA = 0x9E3779B97F4A7C15
AWKWARD_IDS = [0, 1, 2, 1796, 2**31, 2**32 + 7, 2**63 - 1, -1, -2, -(2**63)]
AWKWARD_KEYS = [0, 1, GAMMA, 2**63, 2**64 - 1, 0x0123456789ABCDEF]


def splitmix64(seed: int, count: int) -> list[int]:
    """Return the first numbers of the generator as published (Steele, Lea and Flood 2014, fig. 17)."""
    numbers = []
    for _ in range(count):
        seed = (seed + GAMMA) % 2**64
        z = seed
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        numbers.append(z ^ (z >> 31))
    return numbers


def unsigned(bits_B: torch.Tensor) -> list[int]:
    return [bits % 2**64 for bits in bits_B.tolist()]


def test_reference_gives_the_published_numbers() -> None:
    assert splitmix64(1234567, 3) == [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert splitmix64(0, 1) == [0xE220A8397B1DCDAF]


@pytest.mark.parametrize("key", AWKWARD_KEYS)
def test_hashes_of_1_2_3_are_the_numbers_of_a_generator_seeded_with_the_key(key: int) -> None:
    assert unsigned(hash_ids(key, torch.arange(1, 101))) == splitmix64(key, 100)


@pytest.mark.parametrize("key", AWKWARD_KEYS)
def test_hash_of_a_tensor_is_bit_identical_to_that_of_python_integers(key: int) -> None:
    hashed = hash_ids(key, torch.tensor(AWKWARD_IDS))
    assert hashed.dtype == torch.int64
    assert unsigned(hashed) == [splitmix64((key + (i - 1) * GAMMA) % 2**64, 1)[0] for i in AWKWARD_IDS]


def test_hash_depends_only_on_its_id_and_keeps_the_shape() -> None:
    ids = torch.arange(12).view(3, 4)
    hashed = hash_ids(7, ids)
    assert hashed.shape == (3, 4)
    assert hashed[2, 1].item() == hash_ids(7, torch.tensor([9])).item()
    assert torch.equal(hash_ids(7, ids.flip(0)), hashed.flip(0))


def test_key_combines_its_parts_through_the_generator() -> None:
    assert make_key() == 0
    assert make_key(0) == splitmix64(0, 1)[0]
    state = 0
    for part in (3, int.from_bytes(b"order", "little"), 5):
        # The part is added after the constant; subtract the constant, which the reference adds again.
        state = splitmix64((((state + GAMMA) ^ part) - GAMMA) % 2**64, 1)[0]
    assert make_key(3, "order", 5) == state


def test_keys_differ_by_value_order_and_number_of_parts() -> None:
    keys = [make_key(*parts) for parts in ((1, 2), (2, 1), (1,), (1, 2, 0), (1, "2"), (-1, 2), (2**64 - 2, 2), (0, 2))]
    assert len(set(keys)) == len(keys)
    assert all(0 <= key < 2**64 for key in keys)


def test_negative_part_of_a_key_counts_as_its_64_bits() -> None:
    assert make_key(-1) == make_key(2**64 - 1)


@pytest.mark.parametrize("limit", [1, 2, 3, 9, 1000, 2**31 - 1])
def test_integers_are_the_upper_32_bits_scaled(limit: int) -> None:
    ids = torch.tensor(AWKWARD_IDS)
    expected = [(bits >> 32) * limit >> 32 for bits in unsigned(hash_ids(11, ids))]
    drawn = integers(11, ids, limit).tolist()
    assert drawn == expected
    assert all(0 <= value < limit for value in drawn)


def test_integers_of_negative_hashes_are_not_negative() -> None:
    """Half of the hashes are negative; an arithmetic shift would draw negative numbers for them."""
    ids = torch.arange(1000)
    negative = hash_ids(11, ids) < 0
    assert 450 < int(negative.sum()) < 550
    assert integers(11, ids[negative], 10).unique().tolist() == list(range(5, 10))


@pytest.mark.parametrize("key", [0, make_key(0, "flip"), make_key(1, "flip")])
def test_integers_are_uniform_over_consecutive_ids(key: int) -> None:
    counts = integers(key, torch.arange(70_000), 7).bincount(minlength=7).double()
    chi_square = ((counts - 10_000) ** 2 / 10_000).sum().item()
    assert chi_square < 22.5  # 6 degrees of freedom: once in a thousand keys


@pytest.mark.parametrize("bit", [0, 31, 32, 63])
def test_every_bit_is_set_in_half_of_the_hashes(bit: int) -> None:
    share = ((hash_ids(make_key(0, "order", 0), torch.arange(40_000)) >> bit) & 1).double().mean().item()
    assert share == pytest.approx(0.5, abs=0.01)  # four standard deviations


def test_neighbouring_keys_give_unrelated_numbers() -> None:
    first, second = (integers(make_key(seed, "flip"), torch.arange(10_000), 2) for seed in (0, 1))
    assert (first == second).double().mean().item() == pytest.approx(0.5, abs=0.02)


def test_fractions_are_uniform_and_below_one() -> None:
    drawn = fractions(make_key(0, "rotate"), torch.arange(10_000))
    assert drawn.dtype == torch.float32
    assert is_uniform(drawn)
    assert (drawn.min() >= 0, drawn.max() < 1) == (True, True)
    keys = torch.tensor([[signed(make_key(0, "rotate"))], [signed(make_key(1, "rotate"))]])
    both = fractions(keys, torch.arange(10_000))
    assert torch.equal(both[0], drawn)
    assert not torch.equal(both[1], drawn)


@pytest.mark.parametrize("key", [0, 5, 2**63, 2**64 - 1, -1, -(2**63)])
def test_same_key_seeds_the_libraries_alike(key: int) -> None:
    def draw() -> tuple[float, float, float]:
        seed_libraries(key)
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    first = draw()
    random.random(), np.random.rand(), torch.rand(())
    assert draw() == first


def test_another_key_seeds_all_three_libraries_differently() -> None:
    drawn = []
    for key in (1, 2):
        seed_libraries(key)
        drawn.append((random.random(), float(np.random.rand()), float(torch.rand(()))))
    assert all(first != second for first, second in zip(*drawn, strict=True))
