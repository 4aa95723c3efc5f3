"""Samples of products cover all pairs, and the rest is marked deep."""

from __future__ import annotations

import itertools

import pytest

from tests.pairwise import covering, few, sampled


@pytest.mark.parametrize("sizes", [(4, 3, 2), (2, 2, 2, 2), (5, 4, 3, 2), (7, 1, 3), (6, 2)])
def test_every_pair_is_in_a_row(sizes):
    rows = covering(sizes)
    for f, g in itertools.combinations(range(len(sizes)), 2):
        found = {(row[f], row[g]) for row in rows}
        assert found == set(itertools.product(range(sizes[f]), range(sizes[g])))
    assert len(set(rows)) == len(rows) and rows == covering(sizes)


def test_every_value_is_in_a_row():
    rows = covering((5, 2, 3), strength=1)
    assert len(rows) == 5 and [len({row[f] for row in rows}) for f in range(3)] == [5, 2, 3]


def test_values_do_not_go_along_with_a_period_of_another_factor():
    assert covering((4, 2), strength=1) == [(0, 0), (1, 1), (2, 1), (3, 0)]


def test_few_rows_are_enough():
    assert len(covering((2, 2, 2))) == 4 and len(covering((3,) * 5)) <= 15


def test_the_rest_of_the_product_is_deep():
    params = sampled({"a": 1, "b": 2}, [3, 4], [pytest.param(5, 6, id="both"), pytest.param(7, 8, id="all")])
    assert [param.values for param in params] == [(a, b, *c) for a in (1, 2) for b in (3, 4) for c in ((5, 6), (7, 8))]
    assert params[0].id == "a-3-both" and len({param.id for param in params}) == 8
    assert [bool(param.marks) for param in params].count(False) == len(covering((2, 2, 2)))


def test_all_but_a_few_cases_are_deep():
    params = few(["a", pytest.param("b", id="second"), "c"], 2)
    assert [param.values for param in params] == [("a",), ("b",), ("c",)] and params[1].id == "second"
    assert [bool(param.marks) for param in params] == [False, False, True]
    params = few(itertools.product("ab", [1, 2]), [("b", 1)])
    assert [param.values for param in params if not param.marks] == [("b", 1)] and len(params) == 4
