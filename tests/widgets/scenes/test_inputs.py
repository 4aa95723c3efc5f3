"""Observations and actions are read correctly, or rejected with a helpful error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rlnb_widgets.scenes.inputs import action_indices, action_values, feature_rows, indices


@pytest.mark.parametrize(
    ("shape", "hint"),
    [
        ((2,), "That is a single observation; for one frame pass observations[None]."),
        ((5, 7, 2), "For a batch pick one environment, or pass observations.reshape(-1, 2)."),
        (
            (5, 3),
            "Pass the observations as the env returns them, before any transform that picks or joins features.",
        ),
    ],
)
def test_features_of_another_shape_are_refused(shape: tuple[int, ...], hint: str) -> None:
    with pytest.raises(ValueError) as error:
        feature_rows(np.zeros(shape), "Toy", ("x", "v"))
    assert str(error.value) == f"Toy is drawn from observations of shape [N, 2] (x, v), got shape {list(shape)}. {hint}"


def test_features_are_copied_and_rows_that_are_not_finite_are_nan() -> None:
    given_rows = np.array([[1, 2], [np.inf, 3], [4, np.nan]], np.float32)
    rows = feature_rows(given_rows, "Toy", ("x", "v"))
    np.testing.assert_array_equal(rows, [[1, 2], [np.nan, np.nan], [np.nan, np.nan]])
    assert given_rows[1, 1] == 3


@given(st.lists(st.integers(0, 6), min_size=1, max_size=20), st.sampled_from([np.bool_, np.int64, np.float32]))
def test_one_hot_says_the_same_as_the_index(values: list[int], dtype: type) -> None:
    index = np.array(values)
    for encoded in (index, index[:, None], index.astype(np.float32), np.eye(7, dtype=dtype)[index]):
        np.testing.assert_array_equal(indices(encoded, 7, "Toy states"), values)


def test_nan_and_padding_stand_for_nothing() -> None:
    np.testing.assert_array_equal(indices([1.0, np.nan], 3, "s"), [1, np.nan])
    rows = np.array([[0, 1, 0], [np.nan] * 3, [0, 0, 0], [0, 1, np.nan]])
    np.testing.assert_array_equal(indices(rows, 3, "s"), [1, np.nan, np.nan, np.nan])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0, 3], "Toy states must be whole numbers from 0 to 2 (or NaN for nothing), got 3 at row 1."),
        ([-1], "Toy states must be whole numbers from 0 to 2 (or NaN for nothing), got -1 at row 0."),
        ([0.5], "Toy states must be whole numbers from 0 to 2 (or NaN for nothing), got 0.5 at row 0."),
        ([np.inf], "Toy states must be whole numbers from 0 to 2 (or NaN for nothing), got inf at row 0."),
        (
            [[1, 0, 0], [1, 0, 1]],
            "Toy states of shape [N, 3] must be one-hot (a single 1, the rest 0), row 1 has 2 entries that are not 0.",
        ),
        (
            [[0, 0.5, 0]],
            "Toy states of shape [N, 3] must be one-hot (a single 1, the rest 0), row 0 has 1 entries that are not 0.",
        ),
        (
            np.zeros((2, 4)),
            "Toy states must be indices of shape [N] or [N, 1], or one-hot rows of shape [N, 3], got shape [2, 4]. "
            "Was the scene made for another map or env? Ask for it with find_scene(env).",
        ),
        (
            np.zeros((2, 5, 3)),
            "Toy states must be indices of shape [N] or [N, 1], or one-hot rows of shape [N, 3], got shape [2, 5, 3]. "
            "For a batch pick one environment, or flatten the batch dimensions into one.",
        ),
        (
            1,
            "Toy states must be indices of shape [N] or [N, 1], or one-hot rows of shape [N, 3], got shape [].",
        ),
    ],
)
def test_what_is_no_index_is_refused(values: object, message: str) -> None:
    with pytest.raises(ValueError) as error:
        indices(values, 3, "Toy states")
    assert str(error.value) == message


def test_no_actions_are_none_in_every_frame() -> None:
    assert np.isnan(action_indices(None, 2, 3, "Toy")).tolist() == [True] * 3
    assert np.isnan(action_values(None, 2, 3, "Toy")).tolist() == [True] * 3


def test_the_last_observation_may_lack_an_action() -> None:
    np.testing.assert_array_equal(action_indices([[0, 1], [1, 0]], 2, 3, "Toy"), [1, 0, np.nan])
    np.testing.assert_array_equal(action_values([[1.0]], 2.0, 2, "Toy"), [0.5, np.nan])


@pytest.mark.parametrize("count", [1, 4])
def test_another_number_of_actions_is_refused(count: int) -> None:
    message = (
        "Toy needs one action per observation, or one fewer if the last has none: "
        f"got {count} actions for 3 observations."
    )
    for read in (lambda: action_indices([0] * count, 2, 3, "Toy"), lambda: action_values([0.0] * count, 1, 3, "Toy")):
        with pytest.raises(ValueError) as error:
            read()
        assert str(error.value) == message


def test_continuous_actions_are_clipped_as_the_env_does() -> None:
    np.testing.assert_array_equal(action_values([5.0, -3.0, 1.0, np.nan], 2.0, 4, "Toy"), [1, -1, 0.5, np.nan])
    with pytest.raises(
        ValueError, match=r"^Toy actions must be numbers of shape \[N\] or \[N, 1\], got shape \[4, 2\].$"
    ):
        action_values(np.zeros((4, 2)), 2.0, 4, "Toy")
