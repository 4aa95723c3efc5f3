"""SumTree: exact sums after any number of updates, proportional draws, and no draws of items with priority 0."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlnb.data.replay_buffers.sum_tree import SumTree

VALUES = st.one_of(st.just(0.0), st.floats(1e-8, 1e8), st.sampled_from([1e-8, 1.0, 1e8, 5e-324, 1e-300]))


@given(size=st.sampled_from([1, 2, 31, 32, 33, 1000, 1024, 1025, 33_000]), data=st.data())
def test_sums_and_least_are_those_of_the_numbers(size: int, data: st.DataObject) -> None:
    tree, numbers = SumTree(size), [0.0] * size
    for _ in range(data.draw(st.integers(1, 6))):
        positions = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=12))
        values = data.draw(st.lists(VALUES, min_size=len(positions), max_size=len(positions)))
        tree.set(np.array(positions), np.array(values))
        for position, value in zip(positions, values, strict=True):  # the last one counts
            numbers[position] = value
        if data.draw(st.booleans()):
            exact = math.fsum(numbers)
            assert tree.total() == pytest.approx(exact, rel=1e-14, abs=0)
            assert tree.least() == min((number for number in numbers if number > 0), default=math.inf)
            assert tree.most() == max(numbers)
    assert tree.values().tolist() == numbers


@given(size=st.sampled_from([1, 33, 1025, 40_000]), data=st.data())
def test_what_is_found_has_mass_and_is_where_the_running_sum_passes(size: int, data: st.DataObject) -> None:
    tree = SumTree(size)
    positions = np.unique(np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=30))))
    values = np.array(data.draw(st.lists(VALUES, min_size=len(positions), max_size=len(positions))))
    if not (values > 0).any():
        values[0] = 1.0
    tree.set(positions, values)
    total = tree.total()
    shares = np.array(data.draw(st.lists(st.floats(0, 1), min_size=1, max_size=30)))
    found = tree.find(shares * total)
    assert (tree.get(found) > 0).all()
    running = np.cumsum(tree.values())
    slack = 1e-12 * total
    assert (running[found] >= shares * total - slack).all()
    assert (running[found] - tree.get(found) <= shares * total + slack).all()


def test_masses_are_found_in_proportion() -> None:
    random = np.random.default_rng(0)
    size = 50_000
    tree, numbers = SumTree(size), np.zeros(size)
    chosen = random.choice(size, 200, replace=False)
    numbers[chosen] = random.random(200) + 0.05
    tree.set(np.arange(size), numbers)
    draws = 200_000
    counts = np.bincount(tree.find(random.random(draws) * tree.total()), minlength=size)
    assert counts[numbers == 0].sum() == 0
    expected = numbers[chosen] / numbers.sum() * draws
    statistic = ((counts[chosen] - expected) ** 2 / expected).sum()
    assert statistic < 199 + 6 * (2 * 199) ** 0.5


def test_ten_million_updates_leave_no_error_behind() -> None:
    random = np.random.default_rng(1)
    size = 100_000
    tree = SumTree(size)
    for _ in range(200):
        positions = random.integers(0, size, 50_000)
        tree.set(positions, 10.0 ** random.uniform(-8, 8, len(positions)))
        tree.total()
    small = 10.0 ** random.uniform(-8, -7, size)
    for start in range(0, size, 250):  # in small updates, which form only the sums above them
        tree.set(np.arange(start, start + 250), small[start : start + 250])
        tree.total()
    assert tree.total() == pytest.approx(math.fsum(small), rel=1e-13)
    assert tree.least() == small.min()
    tree.set(np.arange(size), 0.0)
    assert tree.total() == 0 and tree.least() == math.inf


def test_one_large_number_does_not_hide_the_rest_of_its_block() -> None:
    tree = SumTree(64)
    tree.set(np.arange(64), np.full(64, 1e-8))
    tree.set(np.array([40]), 1e8)
    assert tree.find(np.array([0.0, 31.5e-8]))[0] == 0
    tree.set(np.array([40]), 1e-8)  # and it is gone without a trace
    assert tree.total() == pytest.approx(64e-8, rel=1e-15)
    assert (tree.find((np.arange(64) + 0.5) * 1e-8) == np.arange(64)).all()


def test_a_tree_can_be_cleared() -> None:
    tree = SumTree(5000)
    tree.set(np.arange(5000), 1.0)
    assert tree.total() == 5000
    tree.clear()
    assert tree.total() == 0 and tree.values().max() == 0


def test_a_mass_at_the_end_of_a_block_is_found_at_its_end() -> None:
    """The sum of a block, formed at once, can exceed its last running sum by a rounding error."""
    numbers = np.random.default_rng(2).random(64 * 32) + 0.1
    tree = SumTree(len(numbers))
    tree.set(np.arange(len(numbers)), numbers)
    assert tree.total() > 0
    sums = np.einsum("ij->i", numbers.reshape(-1, 32))
    assert (sums > numbers.reshape(-1, 32).cumsum(1)[:, -1]).any()
    ends = sums.cumsum()
    found = tree.find(ends - 1e-15 * ends)
    assert (found[1:] % 32 == 31).all()
    assert (tree.find(np.nextafter(ends, 0)) % 32 == 31).all()


@pytest.mark.parametrize("size", [5, 32, 33, 1024, 1100, 40_000])
def test_the_whole_mass_is_found_at_the_last_number_that_is_not_0(size: int) -> None:
    for last in {0, size // 2, size - 1}:
        tree = SumTree(size)
        tree.set(np.arange(last + 1), 1.0)
        assert tree.find(np.array([0.0, tree.total(), tree.total() - 0.5])).tolist() == [0, last, last]


def test_the_least_is_known_whatever_is_written_over_it() -> None:
    """In order, as a ring is written, and always the least itself."""
    random, size = np.random.default_rng(3), 300
    tree, numbers = SumTree(size), np.ones(size)
    tree.set(np.arange(size), numbers)
    for place in range(size):
        numbers[place] = 2.0 + random.random()
        tree.set(np.array([place]), numbers[[place]])
        assert tree.least() == numbers.min()
    for _ in range(size):
        place = int(numbers.argmin())
        numbers[place] += 1 + random.random()
        tree.set(np.array([place, place]), np.array([0.1, numbers[place]]))  # of which the last one counts
        assert tree.least() == numbers.min()
