"""Worlds as tables, and the values and arrows that the lessons draw for them."""

from __future__ import annotations

import base64
import re

import pytest
import torch
from exercises.hall import HALL, true_values
from exercises.tables import MAZE, action_values, greedy_arrows, random_table, sweep_book, table_of, value_sweeps
from exercises.value_map import ValueMaps


def test_a_table_has_the_outcome_of_each_action_in_each_cell() -> None:
    world = table_of(["S.G", ".#H"], hole_reward=-1.0)
    assert world["next", "observation"][0].tolist() == [0, 3, 1, 0]
    assert world["next", "observation"][1].tolist() == [0, 1, 2, 1]
    assert world["next", "reward"][1].flatten().tolist() == [0, 0, 1, 0]
    assert world["next", "terminated"][1].flatten().tolist() == [False, False, True, False]
    assert not world["next", "reward"][4].any(), "in a wall nothing happens"


def test_value_iteration_finds_the_known_values_of_the_hall_one_ring_a_sweep() -> None:
    world, true = table_of(HALL), true_values(0.9)
    series = value_sweeps(world, 0.9, 12)
    assert torch.allclose(series[-1], true)
    for k, values in enumerate(series):
        near = true >= 0.9 ** (k - 1) - 1e-6
        assert torch.allclose(values[near], true[near]) and not values[~near].any()


def test_values_after_an_end_do_not_count() -> None:
    world = random_table()
    high = torch.full((12,), 100.0)
    over = world["next", "terminated"].squeeze(-1)
    worth = action_values(high, world, 0.5)
    assert 0 < over.sum() < over.numel()
    assert torch.equal(worth[over], world["next", "reward"].squeeze(-1)[over])
    assert (worth[~over] > 40).all()


def test_arrows_point_to_all_best_actions_and_nowhere_without_a_choice() -> None:
    world = table_of(HALL)
    arrows = greedy_arrows(true_values(0.9), world, 0.9)
    assert arrows[0] == [1, 2] and arrows[7] == [1] and arrows[30] == [2]
    assert greedy_arrows(torch.zeros(32), world, 0.9)[0] == []


def test_following_the_arrows_through_the_maze_reaches_the_goal() -> None:
    world = table_of(MAZE)
    arrows = greedy_arrows(value_sweeps(world, 0.9, 30)[-1], world, 0.9)
    cell, letters = 0, "".join(MAZE)
    for _ in range(15):
        if letters[cell] == "G":
            break
        cell = int(world["next", "observation"][cell, arrows[cell][0]])
    assert letters[cell] == "G"


def test_maps_with_arrows_have_them_in_text_and_picture() -> None:
    maps = ValueMaps(["SS", "CG"], {"a": [0.5, -1.0, 0.0, 0.0]}, {"a": [[2, 3], [1], [0], [0]]})
    assert repr(maps) == "a\n  0.50>^ -1.00v\n     C      G"
    svg = base64.b64decode(re.findall(r"base64,([A-Za-z0-9+/=]+)", maps._repr_html_())[0]).decode()
    tips = re.findall(r'<polygon points="([^"]+)"', svg)
    assert len(tips) == 3, "no arrows on goal and cliff"
    right, up, down = ([tuple(map(float, point.split(","))) for point in tip.split()] for tip in tips)
    assert right[1][0] > max(right[0][0], right[2][0])
    assert up[1][1] < min(up[0][1], up[2][1])
    assert down[1][1] > max(down[0][1], down[2][1])


@pytest.mark.parametrize(("value", "word"), [(9.994, "9.99"), (-30.0, "-30.0"), (-104.4, "-104"), (-0.001, "0.00")])
def test_long_numbers_have_fewer_digits(value: float, word: str) -> None:
    assert repr(ValueMaps(["S"], {"a": [value]})).split() == ["a", word]


def test_all_sweeps_have_one_scale() -> None:
    book = sweep_book(["SG"], [torch.tensor([x, 9.0]) for x in (0.0, 0.5, 1.0)], "v")
    shades = [re.findall(r'fill-opacity="([\d.]+)"', picture) for picture in book._pictures]
    assert shades == [[], ["0.3"], ["0.6"]]
    assert sweep_book(["SG"], [torch.zeros(2)], "nothing").length == 1
