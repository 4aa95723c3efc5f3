"""OpenSpielEnv and OpenSpielWrapper beside OpenSpiel itself."""

from __future__ import annotations

import re

import pyspiel
import pytest
import torch
from rlnb_widgets.rollout_player.model import player_model
from tensordict.nn import TensorDictModule

from rlnb.data import Categorical, OneHot
from rlnb.envs import MarlGroupMapType, OpenSpielEnv, OpenSpielWrapper, ParallelEnv, check_env_specs
from tests.libs.wrappers import assert_keeps_promises, assert_same

ONE_EACH = MarlGroupMapType.ONE_GROUP_PER_AGENT

GAMES = ["tic_tac_toe", "connect_four", "kuhn_poker", "goofspiel(num_cards=4)", "matrix_pd", "2048", "leduc_poker"]


@pytest.mark.parametrize("name", ["kuhn_poker", "goofspiel(num_cards=4)"])
def test_the_wrapper_keeps_its_promises(name):
    assert_keeps_promises(lambda: OpenSpielEnv(name))


@pytest.mark.parametrize("categorical", [True, False])
@pytest.mark.parametrize("name", GAMES)
def test_the_data_are_those_of_the_own_loop(name, categorical):
    outcomes = []

    def sampler(actions, probabilities):
        assert sum(probabilities) == pytest.approx(1)
        outcomes.append(actions[int(torch.randint(len(actions), ()))])
        return outcomes[-1]

    torch.manual_seed(0)
    env = OpenSpielEnv(name, categorical_actions=categorical, chance_sampler=sampler)
    check_env_specs(env)
    outcomes.clear()
    rollout = env.rollout(40, break_when_any_done=False)
    game, drawn = env.game, iter(outcomes)

    def settle(state):
        while state.is_chance_node():
            state.apply_action(next(drawn))
        return state

    players = range(game.num_players())
    state = settle(game.new_initial_state())
    for t, row in enumerate(rollout.unbind(0)):
        assert row["current_player"] == state.current_player()
        for p in players:
            legal = state.legal_actions(p) or [0]
            assert row["agents", "action_mask"][p].nonzero().flatten().tolist() == legal
            seen = torch.tensor(state.observation_tensor(p)).reshape(game.observation_tensor_shape())
            assert torch.equal(row["agents", "observation"][p], seen)
            if game.get_type().provides_information_state_tensor:
                assert row["agents", "information_state"][p].flatten().tolist() == pytest.approx(
                    state.information_state_tensor(p)
                )
        actions = row["agents", "action"] if categorical else row["agents", "action"].argmax(-1)
        before = state.returns()
        if state.is_simultaneous_node():
            state.apply_actions(actions.tolist())
        else:
            state.apply_action(int(actions[state.current_player()]))
        settle(state)
        gained = [new - old for new, old in zip(state.returns(), before, strict=True)]
        assert row["next", "agents", "reward"].flatten().tolist() == pytest.approx(gained)
        assert row["next", "done"].item() == row["next", "terminated"].item() == state.is_terminal()
        if state.is_terminal():
            assert row["next", "current_player"] == pyspiel.PlayerId.TERMINAL
            state = settle(game.new_initial_state()) if t + 1 < len(rollout) else state
    assert next(drawn, None) is None


@pytest.mark.parametrize("kwargs", [{}, {"categorical_actions": True, "group_map": ONE_EACH}], ids=["one", "each"])
@pytest.mark.parametrize("name", GAMES)
def test_rows_are_the_same_as_steps(name, kwargs):
    found = []
    for steps in (False, True):
        env = OpenSpielEnv(name, **kwargs)
        env.set_seed(1)
        rollout = env.rollout(50, break_when_any_done=False, callback=(lambda td: None) if steps else None)
        found.append((rollout, env.reset(), env.rand_action()))
        assert env._fills_rows
    for first, second in zip(*found, strict=True):
        assert_same(first, second)
    first, second = found[0][0], found[1][0]
    assert [first.get(k).batch_size for k in env.group_map] == [second.get(k).batch_size for k in env.group_map]


def test_a_policy_fills_rows_and_its_illegal_actions_are_found():
    env = OpenSpielEnv("tic_tac_toe", categorical_actions=True)

    def first_legal(mask):
        return mask.long().argmax(-1)

    policy = TensorDictModule(first_legal, [("agents", "action_mask")], [("agents", "action")])
    rollout = env.rollout(20, policy, break_when_any_done=False)
    by_steps = env.rollout(20, policy, break_when_any_done=False, callback=lambda td: None)
    assert_same(rollout, by_steps)
    policy = TensorDictModule(lambda mask: 0 * first_legal(mask), [("agents", "action_mask")], [("agents", "action")])
    with pytest.raises(ValueError, match=r"^The action 0 of player_1 is not legal"):
        env.rollout(20, policy)


def test_random_actions_are_legal_and_so_are_those_of_the_spec():
    env = OpenSpielEnv("connect_four", categorical_actions=True)
    rollout = env.rollout(200, break_when_any_done=False)
    assert rollout["next", "done"].any() and len(rollout) == 200
    td = env.reset()
    for _ in range(5):
        td = env.step_mdp(env.step(td.update(env.full_action_spec.rand())))


def test_kinds_of_actions_and_groups():
    assert isinstance(OpenSpielEnv("tic_tac_toe").full_action_spec["agents", "action"], OneHot)
    env = OpenSpielEnv(
        "tic_tac_toe", categorical_actions=True, group_map=MarlGroupMapType.ONE_GROUP_PER_AGENT, return_state=True
    )
    assert isinstance(env.full_action_spec["player_1", "action"], Categorical)
    check_env_specs(env)
    td = env.reset()
    td["player_0", "action"], td["player_1", "action"] = torch.tensor([4]), torch.tensor([0])
    after = env.step(td)["next"]
    assert not after["player_1", "action_mask"][0, 4] and after["player_1", "action_mask"].sum() == 8
    assert after["player_0", "action_mask"].nonzero().tolist() == [[0, 0]]


def test_a_reset_goes_on_from_a_state():
    env = OpenSpielEnv("leduc_poker", return_state=True, categorical_actions=True)
    check_env_specs(env)
    td = env.rand_step(env.reset())
    kept = td["next"].clone()
    env.rand_step(env.step_mdp(td))
    back = env.reset(kept.clone())
    assert back["state"] == kept["state"] and torch.equal(back["agents", "observation"], kept["agents", "observation"])
    rollout = env.rollout(30, break_when_any_done=False)
    ended = rollout["next", "done"].flatten()[:-1].nonzero().flatten().tolist()
    assert ended and all(rollout[i + 1]["state"] != rollout[i]["next", "state"] for i in ended), "a new episode"


def test_an_env_starts_where_the_state_is():
    state = pyspiel.load_game("tic_tac_toe").new_initial_state()
    state.apply_action(4)
    env = OpenSpielWrapper(state)
    for _ in range(2):
        assert env.reset()["current_player"] == 1 and not env.full_action_spec["agents", "action"].mask[1, 4]
        env.rollout(3)
    assert state.history() == [4], "the state itself is not played on"
    assert env.history() == env._play.state.history() and repr(env).startswith("OpenSpielWrapper(env=tic_tac_toe,")


def test_chance_is_seeded():
    def hands(seed):
        env = OpenSpielEnv("leduc_poker")
        env.set_seed(seed)
        return [env.reset()["agents", "information_state"] for _ in range(10)]

    first, second, third = map(torch.stack, map(hands, (1, 1, 2)))
    assert torch.equal(first, second) and not torch.equal(first, third)


def test_bad_input():
    env = OpenSpielEnv("tic_tac_toe", categorical_actions=True)
    td = env.reset()
    td = env.step_mdp(env.step(td.set(("agents", "action"), torch.tensor([4, 0]))))
    with pytest.raises(ValueError) as error:
        env.step(td.set(("agents", "action"), torch.tensor([0, 4])))
    assert str(error.value) == (
        "The action 4 of player_1 is not legal. Its legal actions are [0, 1, 2, 3, 5, 6, 7, 8]. "
        'Fix: choose where "action_mask" is True.'
    )
    env.step(td.set(("agents", "action"), torch.tensor([0, 5])))  # it stayed as it was
    with pytest.raises(ValueError) as error:
        OpenSpielEnv("kuhn_poker", chance_sampler=lambda actions, probabilities: 7).reset()
    assert str(error.value) == ("chance_sampler returned 7, which is not an outcome. Fix: return one of [0, 1, 2].")
    with pytest.raises(ValueError, match=r"^There is no environment 'tik_tac_toe' in OpenSpiel. Did you mean 'tic_tac"):
        OpenSpielEnv("tik_tac_toe")
    with pytest.raises(TypeError) as error:
        OpenSpielWrapper(pyspiel.load_game("chess"))
    assert str(error.value).startswith("OpenSpielWrapper wraps a state of OpenSpiel and got a ")
    with pytest.raises(ValueError) as error:
        OpenSpielEnv("tic_tac_toe", batch_size=[3])
    assert str(error.value) == (
        "OpenSpielWrapper plays one game, and batch_size=[3] was given. "
        "Fix: SerialEnv(n, make_env), or ParallelEnv(n, make_env)."
    )
    with pytest.raises(ValueError) as error:
        OpenSpielEnv("mfg_garnet")
    assert str(error.value) == (
        "mfg_garnet is a mean field game, whose steps need the distribution of all players. "
        "Fix: choose a game whose get_type().dynamics is SEQUENTIAL or SIMULTANEOUS."
    )
    with pytest.raises(ValueError) as error:
        OpenSpielEnv("misere")
    assert str(error.value) == (
        "OpenSpiel cannot load the game 'misere': Missing parameter game. "
        "Fix: give the parameters that it needs in brackets, such as OpenSpielEnv('misere(game=tic_tac_toe())')."
    )
    assert OpenSpielEnv("misere(game=tic_tac_toe())").rollout(3).shape == (3,)
    assert {"chess", "kuhn_poker", "tic_tac_toe"} < set(OpenSpielEnv.available_envs)


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four"])
@pytest.mark.parametrize("kwargs", [{}, {"categorical_actions": True}, {"group_map": ONE_EACH}], ids=["", "c", "g"])
def test_the_player_draws_the_board(name, kwargs):
    env = OpenSpielEnv(name, return_state=True, **kwargs)
    rollout = env.rollout(30, break_when_any_done=False)
    frames = player_model(rollout, env).frames
    assert frames.kind == "scene"
    for i, row in enumerate(rollout.unbind(0)):
        state = env.game.deserialize_state(row["state"])
        rows = [line for line in str(state).lower().splitlines() if line]
        caption = frames.scene.caption_at(i)
        assert caption.partition(";")[0].lower() == " / ".join(" ".join(line) for line in rows), i
        if "group_map" not in kwargs:
            action = row["agents", "action"][state.current_player()]
            number = int(action) if kwargs else int(action.argmax())
            assert caption.endswith(f" {number}"), "the move that follows"


def rows_of(state, name):
    """The rows of a position as OpenSpiel prints it, with the letters of the captions."""
    if name == "chess":
        return [re.sub(r"\d", lambda n: "." * int(n[0]), row) for row in str(state).split(" ")[0].split("/")]
    rows = re.findall(r"^ *\d *(\S{5,}|(?:[-xo] ){8})", str(state), re.MULTILINE)
    letters = {"breakthrough": ("bw", "xo"), "checkers": ("8*", "Kk"), "othello": ("-", ".")}
    own = str.maketrans(*letters.get(name, ("XO+", "xo.")))
    return [row.replace(" ", "").translate(own) for row in rows]


@pytest.mark.parametrize("name", ["breakthrough", "checkers", "chess", "go(board_size=5)", "othello"])
def test_the_player_draws_pieces(name):
    env = OpenSpielEnv(name, return_state=True)
    env.set_seed(0)
    torch.manual_seed(0)
    rollout = env.rollout(80)
    scene, cell, player = player_model(rollout, env).frames.scene, "", -1
    for i, row in enumerate(rollout.unbind(0)):
        state = env.game.deserialize_state(row["state"])
        board, _, last = scene.caption_at(i).partition("; the last move was to ")
        assert board == " / ".join(map(" ".join, rows_of(state, name))), i
        assert last == cell, i
        if last:
            pieces = zip(scene.parts[1:], scene.poses[i, 1:], strict=True)
            moved = next(piece for piece, at in pieces if (at == scene.poses[i, 0]).all())
            assert moved.marks[0]["fill"] == f"agent{player}", i
        player = state.current_player()
        move = state.action_to_string(player, int(row["agents", "action"][player].argmax()))
        cell = ["", *re.findall(r"[a-h]\d", move)][-1]
        if move.startswith("O-O"):
            cell = ("c" if move.startswith("O-O-O") else "g") + ("8" if player == 0 else "1")


def test_workers():
    env = ParallelEnv(2, lambda: OpenSpielEnv("kuhn_poker"))
    try:
        assert env.rollout(4, break_when_any_done=False).batch_size == (2, 4)
    finally:
        env.close()
