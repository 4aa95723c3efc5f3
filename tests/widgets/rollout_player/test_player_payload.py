"""The payload of the page: decoded as the page decodes it, and its size."""

from __future__ import annotations

import json
import zlib

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rlnb_widgets import RolloutPlayer
from rlnb_widgets._core.text import key_text
from rlnb_widgets.rollout_player.columns import PackedColumns
from rlnb_widgets.rollout_player.model import player_model
from rlnb_widgets.rollout_player.payload import HIDDEN, player_payload
from tensordict import TensorDict

from rlnb._text import printable
from rlnb.envs import TicTacToeEnv

NUMPY = {kind: np.dtype(kind) for kind in ("f4", "f8", "i1", "u1", "i2", "u2", "i4")}


def decode(described, blob, rows, start=0):
    out = []
    for d in described:
        values = np.frombuffer(blob, NUMPY[d["k"]], d.get("n", rows), start + d["o"])
        if "s" in d:
            column = np.append(out[d["s"]][1:], 0).astype(np.float64)
            column[np.frombuffer(blob, np.int32, d["n"], start + d["x"])] = values
            values = column
        out.append(values)
    return out


@given(
    st.one_of(
        st.lists(st.floats(width=32), min_size=1, max_size=50).map(lambda v: np.array(v, np.float32)),
        st.lists(st.floats(), min_size=1, max_size=50).map(np.array),
        st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=50).map(np.array),
        st.lists(st.booleans(), min_size=1, max_size=50).map(np.array),
    )
)
def test_columns_come_back_exactly(column):
    columns = PackedColumns(len(column))
    number = columns.add(column)
    assert columns.add(column.copy()) == number
    ahead = columns.add(np.append(column[1:], column[:1]), ahead_of=number)
    back = decode(columns.described, columns.blob, len(column))
    np.testing.assert_array_equal(back[number], column)
    np.testing.assert_array_equal(back[ahead], np.append(column[1:], column[:1]))


def test_large_integers_become_floats():
    columns = PackedColumns(2)
    columns.add(np.array([2**40 + 1, 1]))
    assert columns.described[0]["k"] == "f8"


def test_rows_come_back_exactly(cartpole):
    model = player_model(cartpole, "CartPole-v1")
    head, blob, _ = player_payload(model)
    columns = decode(head["columns"], zlib.decompress(blob), 120)
    entry = next(e for e in head["entries"] if e["key"] == '"observation"')
    for side, td in (("root", cartpole), ("next", cartpole["next"])):
        for i, column in enumerate(entry[side]["columns"]):
            np.testing.assert_array_equal(columns[column], td["observation"][:, i].numpy())
    np.testing.assert_array_equal(columns[head["code"]], model.code[0])


@pytest.mark.parametrize("name", ["CartPole", "TicTacToe"])
def test_poses_come_back_finely(name, cartpole):
    game = TicTacToeEnv(seed=1)
    played = cartpole if name == "CartPole" else game.rollout(30, break_when_any_done=False)
    model = player_model(played, "CartPole-v1" if name == "CartPole" else game)
    head, blob, _ = player_payload(model)
    frames = head["frames"]
    poses = model.frames.scene.poses
    columns = decode(frames["columns"], zlib.decompress(blob), len(poses), frames["start"])
    for p, numbers in enumerate(frames["poses"]):
        x, y, angle = (columns[n] for n in numbers)
        hidden = np.isnan(poses[:, p]).any(-1)
        np.testing.assert_array_equal(x == HIDDEN, hidden)
        seen = ~hidden
        np.testing.assert_allclose(x[seen] / frames["units"], poses[seen, p, 0], atol=0.02)
        np.testing.assert_allclose(y[seen] / frames["units"], poses[seen, p, 1], atol=0.02)
        np.testing.assert_allclose(angle[seen] / frames["turns"], poses[seen, p, 2], atol=0.0002)


def test_long_entries_travel_only_in_part():
    td = TensorDict({"o": torch.zeros(5, 100), "image": torch.zeros(5, 3, 64, 64)}, [5])
    entries = {e["key"]: e["root"] for e in player_payload(player_model(td))[0]["entries"]}
    assert len(entries['"o"']["columns"]) == 6
    assert entries['"image"']["columns"] == [] and entries['"image"']["around"] == ["float32 [3, 64, 64]", ""]


def test_what_surrounds_the_numbers_of_an_entry():
    td = TensorDict(
        {"a": torch.zeros(2), "b": torch.zeros(2, 1).bool(), "c": torch.zeros(2, 2), "d": torch.zeros(2, 9)}, [2]
    )
    entries = {e["key"]: e for e in player_payload(player_model(td))[0]["entries"]}
    assert [entries[f'"{key}"']["root"]["around"] for key in "abcd"] == [
        ["", ""], ["", ""], ["[", "]"], ["[", ", … 9]"],
    ]  # fmt: skip
    assert entries['"b"']["root"]["texts"] == ["False", "True"]
    assert entries['"c"']["about"] == '"c"\nroot: float32 [2]\nnext: not there'


def test_a_long_one_hot_entry_travels_as_its_index():
    states = torch.nn.functional.one_hot(torch.tensor([5, 499, 0, 7]), 500)
    td = TensorDict({"o": states[:3], "next": {"o": states[1:]}}, [3])
    head, blob, _ = player_payload(player_model(td))
    columns = decode(head["columns"], zlib.decompress(blob), 3)
    (entry,) = head["entries"]
    for side, expected in (("root", [5, 499, 0]), ("next", [499, 0, 7])):
        assert entry[side]["around"] == ["one-hot [500], 1\u00a0at\u00a0", ""]
        assert columns[entry[side]["columns"][0]].tolist() == expected
    td["next", "o"][2] = 0  # no longer one-hot: then neither side is shortened, and the two can be compared
    (entry,) = player_payload(player_model(td))[0]["entries"]
    assert [(len(entry[side]["columns"]), entry[side]["around"]) for side in ("root", "next")] == [
        (6, ["[", ", … 500]"])
    ] * 2


def test_10_000_steps_stay_small(rollout):
    player = RolloutPlayer(rollout("CartPole-v1", 10_000), "CartPole-v1")
    size = len(player._columns) + len(player._pictures) + len(json.dumps(player._head))
    assert size < 400_000
    assert len(player.to_svg()) < 80_000


@pytest.mark.parametrize(
    "key", ["<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", 'a"b\\c', "\u202e", ""]
)
def test_hostile_keys_and_texts(key):
    td = TensorDict({key or "k": torch.zeros(3, 2), "next": {"reward": torch.ones(3, 1)}}, [3])
    td.set_non_tensor("said", key)
    player = RolloutPlayer(td, strips=[key or "k"])
    for text in (player.to_html(), player._repr_mimebundle_()[0]["text/html"]):
        assert "<img src=x" not in text and "<script>alert" not in text
    # What would turn the text around is shown as its escape, as Python would write it.
    assert printable(key)[:10] in repr(player)
    assert f"{key_text(key or 'k')}  " in repr(player)
    assert "\u202e" not in repr(player) and "\\\\u202e" not in repr(player)
    assert "<img src=x" not in player.to_svg()
