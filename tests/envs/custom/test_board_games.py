"""All board games: specs, rules, any batch, any position, and invalid input."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from rlnb.data.ted.step_mdp import step_mdp
from rlnb.envs import ConnectFourEnv, TicTacToeEnv, check_env_specs
from rlnb.envs.custom.boards import board_lines, choose_open, winner
from tests.envs.custom.games import GAMES, as_position, empty, legal, lines_of, outcome, put
from tests.envs.custom.makers import BATCHES, DEVICES
from tests.pairwise import sampled

EVERY_GAME = pytest.mark.parametrize("game", GAMES)
INTS = torch.int32


@pytest.mark.parametrize(
    ("game", "single_player", "batch", "device"), sampled(list(GAMES), [False, True], BATCHES, DEVICES)
)
def test_specs_hold(game, single_player, batch, device):
    env = GAMES[game](single_player=single_player, batch_size=batch, device=device, seed=0)
    check_env_specs(env, seed=0)
    assert env.batch_size == torch.Size(batch) and not env.batch_locked
    data = env.rollout(4)
    assert {key: (value.shape[len(batch) + 1 :], value.dtype) for key, value in data["next"].items(True, True)} == {
        "board": ((env.rows, env.columns), INTS),
        "turn": ((1,), INTS),
        "mask": ((env.n_actions,), torch.bool),
        "done": ((1,), torch.bool),
        "terminated": ((1,), torch.bool),
        "truncated": ((1,), torch.bool),
        ("player0", "reward"): ((1,), torch.float32),
        ("player1", "reward"): ((1,), torch.float32),
    }
    assert set(env.state_keys) == {"board", "turn", "mask"} == set(env.observation_keys)
    assert env.action_spec.n == env.n_actions and env.action_spec.shape == batch


@EVERY_GAME
@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_one_env_takes_any_batch(game, batch):
    env = GAMES[game](seed=0)
    data = env.rollout(5, tensordict=TensorDict(batch_size=batch))
    assert data.batch_size == (*batch, 5)
    again = env.rollout(2, tensordict=data[..., 2].select("board", "turn", "mask"), auto_reset=False)
    assert torch.equal(again["board"][..., 0, :, :], data["board"][..., 2, :, :])


@EVERY_GAME
@given(data=st.data())
def test_games_follow_the_rules(game, data):
    """Step by step as the plain implementation says, with the right rewards and ends."""
    env = GAMES[game]()
    td, board, player = env.reset(), empty(env), 0
    while True:
        assert [list(row) for row in board] == td["board"].tolist()
        assert td["turn"].item() == player
        assert td["mask"].nonzero().flatten().tolist() == legal(env, board)
        action = data.draw(st.sampled_from(legal(env, board)))
        td = env.step(td.set("action", torch.tensor(action)))
        board, player = put(env, board, action, player), 1 - player
        result, after = outcome(env, board), td["next"]
        assert [after[name, "reward"].item() for name in ("player0", "player1")] == [result == 0, result == 1]
        assert after["done"].item() is after["terminated"].item() is (result is not None)
        assert not after["truncated"].item()
        assert after["mask"].nonzero().flatten().tolist() == legal(env, board)
        assert winner(after["board"], env.connect).item() == (-1 if result is None else result)
        if result is not None:
            assert [list(row) for row in board] == after["board"].tolist()
            return
        td = step_mdp(td, reward_keys=env.reward_keys, done_keys=env.done_keys)


@given(st.data())
def test_lines_are_found_as_by_walking(data):
    rows, columns = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    connect = data.draw(st.integers(1, max(rows, columns)))
    cells = data.draw(st.lists(st.sampled_from([-1, 0, 1]), min_size=3 * rows * columns, max_size=3 * rows * columns))
    boards = torch.tensor(cells).reshape(3, rows, columns)
    has = [[lines_of(board, player, connect) > 0 for player in (0, 1)] for board in boards.tolist()]
    want = [{(False, False): -1, (True, False): 0, (False, True): 1, (True, True): 2}[tuple(row)] for row in has]
    assert winner(boards, connect).tolist() == want


@pytest.mark.parametrize(("size", "lines"), [((3, 3, 3), 8), ((6, 7, 4), 69), ((1, 5, 5), 1), ((4, 4, 1), 16)])
def test_the_number_of_lines(size, lines):
    assert len(board_lines(*size)) == lines


@pytest.mark.parametrize("size", [(0, 7, 4), (6, 7, 0), (3, 3, 4), (-1, 5, 2)])
def test_a_board_without_lines_is_refused(size):
    with pytest.raises(ValueError, match=f"A board of {size[0]} x {size[1]} has no line of {size[2]}"):
        ConnectFourEnv(*size)


@EVERY_GAME
@pytest.mark.parametrize("single_player", [False, True])
def test_a_batch_is_a_loop_over_single_boards(game, single_player):
    env = GAMES[game](single_player=single_player, seed=0)
    data = env.rollout(4, tensordict=TensorDict(batch_size=[6])).flatten()
    env.set_seed(1)
    together = env.step(data.select("board", "turn", "mask", "action"))["next"]
    env.set_seed(1)  # the answers are drawn one after the other
    alone = [env.step(row)["next"] for row in data.select("board", "turn", "mask", "action")]
    for key in together.keys(True, True):
        assert torch.equal(together[key], torch.stack([row[key] for row in alone])), key


@EVERY_GAME
def test_a_step_reads_the_board_alone_and_leaves_no_trace(game):
    env = GAMES[game](seed=0)
    data = env.rollout(4, tensordict=TensorDict(batch_size=[8]))[:, 3]
    before = data["board"].clone()
    bare = env.step(data.select("board", "action"))["next"]
    env.rollout(3)
    full = env.step(data.select("board", "turn", "mask", "action"))["next"]
    assert (bare == full).all() and (bare == data["next"]).all()
    assert torch.equal(data["board"], before), "the position that was handed in is untouched"
    full["done"].fill_(True)
    assert not full["terminated"].any(), "signals do not share memory"


@EVERY_GAME
def test_a_reset_starts_from_a_position_and_a_masked_reset_from_nothing(game):
    env = GAMES[game](seed=0)
    td = env.rollout(3, tensordict=TensorDict(batch_size=[5]))[:, -1]["next"]
    start = env.reset(TensorDict({"board": td["board"].to(torch.int8)}, [5]))
    assert all(torch.equal(start[key], td[key]) for key in ("board", "turn", "mask", "done"))
    assert start["board"].data_ptr() != td["board"].data_ptr()
    mask = torch.tensor([True, False, True, False, False]).unsqueeze(-1)
    part = env.reset(td.clone().set("_reset", mask))
    assert torch.equal(part["board"][~mask[:, 0]], td["board"][~mask[:, 0]])
    assert (part["board"][mask[:, 0]] == -1).all() and (part["turn"][mask] == 0).all()
    assert part["mask"][mask[:, 0]].all()


@EVERY_GAME
def test_random_games_go_on_after_their_end(game):
    env = GAMES[game](seed=0)
    data = env.rollout(60, tensordict=TensorDict(batch_size=[16]), break_when_any_done=False)
    done = data["next", "done"][:, :-1, 0]
    assert done.any(-1).all(), "every board has seen an end"
    assert ((data["board"][:, 1:][done] == -1).all()) and torch.equal(
        data["board"][:, 1:][~done], data["next", "board"][:, :-1][~done]
    )


@EVERY_GAME
def test_random_actions_are_legal_and_each_is_drawn(game):
    env = GAMES[game](seed=0)
    td = env.rollout(3, tensordict=TensorDict(batch_size=[1]))[0, -1]["next"]
    many = td.expand(2000).clone()
    drawn = env.rand_action(many)["action"]
    assert td["mask"][drawn].all()
    share = torch.bincount(drawn, minlength=env.n_actions) / 2000
    assert (share[td["mask"]] - 1 / td["mask"].sum()).abs().max() < 0.05
    env.set_seed(3)
    first = env.rand_action(many.clone())["action"]
    env.set_seed(3)
    assert torch.equal(first, env.rand_action(many.select("board"))["action"]), "the board alone is enough"
    assert env.rand_action()["action"].shape == () and env.rand_action(TensorDict(batch_size=[3]))["action"].shape == (
        3,
    )


@given(st.lists(st.booleans(), min_size=1, max_size=9), st.floats(0, 1, exclude_max=True, width=32))
def test_an_open_action_is_chosen_by_its_share(mask, share):
    opened = [i for i, flag in enumerate(mask) if flag]
    found = choose_open(torch.tensor(mask), torch.tensor(share)).item()
    assert found == (opened[min(int(share * len(opened)), len(opened) - 1)] if opened else 0)


@EVERY_GAME
@pytest.mark.parametrize("seed", [0, 1])
def test_seeds_repeat_games_and_leave_torch_alone(game, seed):
    torch.manual_seed(5)
    outer = torch.get_rng_state()
    runs = []
    for _ in range(2):
        env = GAMES[game](single_player=True)
        env.set_seed(seed)
        runs.append(env.rollout(40, tensordict=TensorDict(batch_size=[4]), break_when_any_done=False))
    assert (runs[0] == runs[1]).all()
    env.set_seed(seed + 1)
    other = env.rollout(40, tensordict=TensorDict(batch_size=[4]), break_when_any_done=False)
    assert not torch.equal(other["board"], runs[0]["board"])
    assert torch.equal(torch.get_rng_state(), outer)


@EVERY_GAME
def test_the_env_answers_for_the_other_player(game):
    env = GAMES[game](single_player=True, seed=0)
    data = env.rollout(50, tensordict=TensorDict(batch_size=[64]), break_when_any_done=False)
    assert (data["turn"] == 0).all(), "the learner is always to move"
    pieces = (data["next", "board"] >= 0).sum((-2, -1)) - (data["board"] >= 0).sum((-2, -1))
    over, answered = data["next", "done"].squeeze(-1), pieces == 2
    assert (answered | (over & (pieces == 1))).all()
    rewards = [data["next", name, "reward"].squeeze(-1) for name in ("player0", "player1")]
    who = winner(data["next", "board"], env.connect)
    assert torch.equal(who == 0, rewards[0] == 1) and torch.equal(who == 1, rewards[1] == 1)
    assert all(reward.any() for reward in rewards) and not (rewards[0] + rewards[1] > over).any()
    assert answered[rewards[1] == 1].all() and not answered[rewards[0] == 1].any()


def test_a_position_of_the_other_player_is_refused_by_single_player():
    env = TicTacToeEnv(single_player=True)
    with pytest.raises(ValueError) as caught:
        env.reset(as_position([[0, -1, -1], [-1, -1, -1], [-1, -1, -1]]))
    assert str(caught.value) == (
        "TicTacToeEnv.reset cannot start from a position of the other player: with single_player=True the learner is "
        "player 0, and here player 1 (O) is to move.\nX . .\n. . .\n. . .\n"
        "Fix: pass a position with as many X as O."
    )


@EVERY_GAME
def test_a_missing_board_is_named(game):
    env = GAMES[game]()
    with pytest.raises(
        KeyError, match=r"keeps no state: step reads 'board' from the TensorDict, and found \['action'\]"
    ):
        env.step(TensorDict({"action": torch.tensor(0)}))
    with pytest.raises(TypeError, match=r"reset takes a TensorDict and nothing else, and got \['state'\]"):
        env.reset(state=3)


def test_boards_of_another_shape_or_dtype_are_refused():
    env = TicTacToeEnv()
    with pytest.raises(ValueError) as caught:
        env.reset(TensorDict({"board": torch.full((4, 3, 3), -1)}))
    assert str(caught.value) == (
        "TicTacToeEnv takes a 'board' of shape (3, 3) and an integer dtype, and got (4, 3, 3) and torch.int64. The "
        "dimensions in front of a board are the batch size of the TensorDict. "
        'Fix: TensorDict({"board": board}, batch_size=[4]).'
    )
    with pytest.raises(ValueError, match="A board is 3 x 3: -1 for an empty cell, 0 and 1 for the players' pieces"):
        env.reset(TensorDict({"board": torch.zeros(3, 3)}))
    with pytest.raises(ValueError, match="A board is 6 x 7"):
        ConnectFourEnv().step(TensorDict({"board": torch.full((3, 3), -1), "action": torch.tensor(0)}))


@pytest.mark.parametrize("device", DEVICES)
def test_moving_the_env_moves_its_data(device):
    env = TicTacToeEnv(seed=0).to(device or "cpu")
    assert env.rollout(3, tensordict=TensorDict(batch_size=[2], device=env.device)).device == env.device
