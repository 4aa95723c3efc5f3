"""The match behind the game widget: turns, replies, illegal moves, undo, and the recorded rollout."""

from __future__ import annotations

import pytest
import torch
from rlnb_widgets.game import Game, Match
from rlnb_widgets.game.thought import read_thought
from tensordict import TensorDict
from tensordict.nn import TensorDictModule

from rlnb.envs import CartPoleEnv, ConnectFourEnv, GridWorldEnv, PendulumEnv, TicTacToeEnv


def first_open(td):
    """The first legal action, with what was thought of all of them."""
    td["logits"] = -torch.arange(td["mask"].shape[-1]).float()
    return td.set("action", td["mask"].long().argmax(-1))


def actions(match):
    return match.rollout["action"].tolist()


def test_the_policy_answers():
    match = Match(TicTacToeEnv(), first_open)
    assert match.your_turn and match.legal == [True] * 9 and not match.can_take_back
    match.act(4)
    assert actions(match) == [4, 0] and match.movers == ["you", "policy"] and match.turn == 0
    assert match.legal == [k not in (0, 4) for k in range(9)]
    match.act(2)
    match.act(6)
    assert match.done and match.winner == 0 and match.rewards == [0, 0, 0, 0, 1]
    assert not match.your_turn and match.legal == [False] * 9 and actions(match) == [4, 0, 2, 1, 6]


def test_who_is_second_is_answered_first():
    match = Match(ConnectFourEnv(), first_open, you=1)
    assert match.movers == ["policy"] and match.turn == 1 and match.your_turn
    match.act(3)
    match.new()
    assert match.movers == ["policy"] and match.you == 1


def test_losing_and_drawing():
    match = Match(TicTacToeEnv(), first_open)
    for action in (8, 7, 3):
        match.act(action)
    assert match.done and match.winner == 1 and match.rewards == [0] * 6
    match.new()
    assert match.winner is None and not match.done
    draw = Match(
        TicTacToeEnv(), lambda board, turn, mask: torch.tensor({1: 4, 3: 2, 5: 3, 7: 7}[int((board >= 0).sum())])
    )
    for action in (0, 1, 6, 5, 8):
        draw.act(action)
    assert draw.done and draw.winner == -1


def test_the_rollout_is_a_ted_that_the_env_would_make():
    env = TicTacToeEnv()
    match = Match(env, first_open)
    for action in (4, 2, 6):
        match.act(action)
    played = iter(actions(match))
    again = env.rollout(9, lambda board, turn, mask: torch.tensor(next(played)))
    assert match.rollout.names == ["time"]
    assert set(match.rollout.keys(True, True)) == set(again.keys(True, True)), "logits are in some steps only"
    assert (match.rollout == again).all()


@pytest.mark.parametrize("env", [TicTacToeEnv(), ConnectFourEnv(3, 3, 3)])
def test_before_the_first_move_there_is_no_rollout(env):
    with pytest.raises(
        ValueError, match=r"There is no step yet: make a move, in the cell or with game\.act\(action\)\."
    ):
        _ = Match(env).rollout


@pytest.mark.parametrize(
    ("action", "words"), [(0, "occupied by player 1"), (9, "The actions are 0 to 8, got 9"), (-1, "-1")]
)
def test_a_refused_move_changes_nothing(action, words):
    match = Match(TicTacToeEnv(), first_open)
    match.act(4)
    before = match.root.clone()
    with pytest.raises(ValueError, match=words):
        match.act(action)
    assert (match.root == before).all() and actions(match) == [4, 0] and match.your_turn


def test_nothing_is_played_after_the_end():
    match = Match(GridWorldEnv(["SG"]))
    match.act(2)
    assert match.done and match.rewards == [1]
    for call in (lambda: match.act(2), match.let_policy):
        with pytest.raises(ValueError, match="The episode is over"):
            call()


def test_a_move_is_taken_back_with_its_answer():
    match = Match(TicTacToeEnv(), first_open)
    match.act(4)
    match.act(2)
    match.take_back()
    assert actions(match) == [4, 0] and match.root["board"][0].tolist() == [1, -1, -1]
    match.act(8)
    assert actions(match) == [4, 0, 8, 1]
    match.take_back()
    match.take_back()
    assert not match.can_take_back and (match.root["board"] == -1).all()
    with pytest.raises(ValueError, match="There is no move of yours to take back"):
        match.take_back()


def test_an_end_can_be_taken_back():
    match = Match(TicTacToeEnv(), first_open)
    for action in (4, 2, 6):
        match.act(action)
    match.take_back()
    assert not match.done and match.your_turn
    match.act(8)
    assert match.movers[-1] == "policy"


def test_an_env_that_keeps_its_state_takes_nothing_back():
    match = Match(CartPoleEnv(seed=0))
    match.act(1)
    assert not match.can_take_back
    with pytest.raises(ValueError, match="CartPoleEnv keeps its state to itself, so no move can be taken back"):
        match.take_back()


def test_sides_are_swapped_in_mid_game():
    match = Match(TicTacToeEnv(), first_open)
    match.act(4)
    match.swap()
    assert match.you == 1 and actions(match) == [4, 0, 1] and match.turn == 1
    match.swap()
    assert match.you == 0 and actions(match) == [4, 0, 1, 2]


@pytest.mark.parametrize("make", [lambda: CartPoleEnv(seed=0), lambda: TicTacToeEnv(single_player=True, seed=0)])
def test_where_there_is_no_other_side_none_is_changed_to(make):
    match = Match(make())
    with pytest.raises(ValueError, match="has no other side to change to"):
        match.swap()
    with pytest.raises(ValueError, match="you, your player, must be 0, as the env has no other side, got 1"):
        Match(make(), you=1)


def test_an_env_that_answers_itself_is_played_alone():
    match = Match(TicTacToeEnv(single_player=True, seed=0))
    match.act(4)
    assert match.movers == ["you"] and match.your_turn and (match.root["board"] >= 0).sum() == 2


def test_the_policy_moves_for_you():
    match = Match(TicTacToeEnv(), first_open)
    match.let_policy()
    assert actions(match) == [0, 1] and match.movers == ["you", "policy"]
    alone = Match(CartPoleEnv(seed=0), lambda observation: torch.tensor([0, 1]))
    alone.let_policy()
    assert alone.rollout["action"].tolist() == [[0, 1]] and alone.rewards == [1]


def raising(board, turn, mask):
    raise RuntimeError("no idea")


def illegal(board, turn, mask):
    return (~mask).long().argmax(-1)


def silent(td):
    return td.set("thought", torch.zeros(()))


FAILURES = {
    "raises": (raising, "raising failed, and a random move was made. RuntimeError: no idea"),
    "is illegal": (illegal, "TicTacToeEnv.step got the illegal action 4: the cell at row 1, column 1 is occupied"),
    "wrote nothing": (silent, "The policy silent wrote no action: the env reads ['action'], and it wrote ['thought']."),
    "returned nothing": (lambda td: None, "The policy <lambda> returned None and wrote no action."),
    "wrong shape": (lambda board, turn, mask: mask, "ValueError: The action 'action' must have shape ()"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_policy_that_fails_is_reported_and_the_game_goes_on(name):
    policy, words = FAILURES[name]
    match = Match(TicTacToeEnv(seed=0), policy)
    match.act(4)
    assert words in match.problem
    assert match.movers == ["you", "policy"] and match.your_turn and match.thought is None
    match.take_back()
    assert match.problem == ""


def test_a_module_plays():
    module = TensorDictModule(lambda mask: mask.float().softmax(-1).argmax(-1), in_keys=["mask"], out_keys=["action"])
    match = Match(TicTacToeEnv(), module)
    match.act(8)
    assert actions(match) == [8, 0] and match.policy_name == "TensorDictModule"


def test_random_moves_are_legal_to_the_end():
    for seed in range(5):
        match = Match(TicTacToeEnv(seed=seed))
        while not match.done:
            match.let_policy()
        assert match.problem == "" and match.policy_name == "random moves"


def test_a_game_starts_from_a_position():
    board = torch.tensor([[0, 0, -1], [1, 1, -1], [-1, -1, -1]], dtype=torch.int32)
    match = Match(TicTacToeEnv(), first_open, start=TensorDict({"board": board}))
    match.act(2)
    assert match.winner == 0
    match.new()
    assert torch.equal(match.root["board"], board)


def test_what_was_thought_is_of_the_legal_actions():
    match = Match(TicTacToeEnv(), first_open)
    match.act(0)
    assert match.thought.key == "logits" and match.thought.words[0] == "" and match.thought.shares[0] == 0
    assert match.thought.words[1] == "63%" and sum(match.thought.shares) == pytest.approx(1, abs=0.005)


THOUGHTS = {
    "probs": ({"probs": [0.2, 0.8, 0.0]}, ("20%", "80%", "0%"), (0.2, 0.8, 0.0)),
    "values": ({"action_value": [-1.0, 3.0, 1.0]}, ("-1", "3", "1"), (0.0, 1.0, 0.5)),
    "values near 0": ({"action_value": [-1.0, -3e-8, 1.0]}, ("-1", "0.00", "1"), (0.0, 0.5, 1.0)),
    "small values": ({"action_value": [-1e-4, 0.0, 1e-4]}, ("-0.0001", "0", "0.0001"), (0.0, 0.5, 1.0)),
}


@pytest.mark.parametrize("name", THOUGHTS)
def test_probabilities_and_values_are_read(name):
    data, words, shares = THOUGHTS[name]
    thought = read_thought(TensorDict({key: torch.tensor(value) for key, value in data.items()}), [True] * 3)
    assert (thought.words, thought.shares) == (words, shares)


@pytest.mark.parametrize("value", [torch.zeros(4), torch.tensor([0.0, float("nan"), 1.0]), torch.zeros(())])
def test_what_does_not_fit_is_no_thought(value):
    assert read_thought(TensorDict({"logits": value}), [True] * 3) is None
    assert read_thought(TensorDict({"logits": torch.zeros(3)}), [False] * 3) is None


def test_masked_logits_are_read():
    data = TensorDict({"logits": torch.tensor([0.0, float("-inf"), 0.0])})
    assert read_thought(data, [True, False, True]).words == ("50%", "", "50%")


REFUSED = {
    "class": (lambda: TicTacToeEnv, TypeError, "play takes an env of rlnb, got the class TicTacToeEnv"),
    "id": (lambda: "CartPole-v1", TypeError, "play takes an env of rlnb, got a str"),
    "batch": (lambda: TicTacToeEnv(batch_size=[3]), ValueError, r"TicTacToeEnv has batch size \(3,\)"),
    "continuous": (
        lambda: PendulumEnv(),
        TypeError,
        "play needs an env with one discrete action, and PendulumEnv has a",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_played_is_refused(name):
    make, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words):
        Match(make())
    with pytest.raises(ValueError, match="you, your player, must be 0 or 1, got 2"):
        Match(TicTacToeEnv(), you=2)


def test_your_move_is_shown_before_the_policy_answers():
    seen = []

    def policy(board, turn, mask):
        seen.append((game._state["steps"], game._state["status"], game._state["thinking"], any(game._state["legal"])))
        return mask.long().argmax(-1)

    game = Game(TicTacToeEnv(), policy)
    game.act(4)
    assert seen == [(1, "O is thinking.", True, False)]
    assert (game._state["steps"], game._state["thinking"]) == (2, False)
