"""Board games: whose turn it is, who has won, and pages that stay small."""

from __future__ import annotations

import pytest
from rlnb_widgets import RolloutPlayer
from rlnb_widgets.rollout_player.model import player_model

from rlnb.envs import ConnectFourEnv, TicTacToeEnv


@pytest.fixture(scope="module")
def games():
    env = TicTacToeEnv(seed=0)
    return env, env.rollout(40, break_when_any_done=False)


def test_every_turn_and_every_winner(games):
    env, rollout = games
    model = player_model(rollout, env)
    assert model.turns.players == ("player0 (X)", "player1 (O)") and model.turns.short == ("X", "O")
    for t in range(40):
        assert model.turns.at(0, t) == f"{model.turns.players[int(rollout['turn'][t])]} to move"
    for t in rollout["next", "terminated"].flatten().nonzero().flatten().tolist():
        won = [bool(rollout["next", f"player{k}", "reward"][t]) for k in range(2)]
        expected = f"{model.turns.players[won.index(True)]} has won" if any(won) else "a draw"
        assert model.turns.winner(0, t) == expected


def test_the_text_counts_the_games(games):
    env, rollout = games
    done = rollout["next", "terminated"]
    wins = [int(rollout["next", f"player{k}", "reward"].sum()) for k in range(2)]
    drawn, over = int(done.sum()) - sum(wins), bool(done[-1])
    said = f"player0 (X) won {wins[0]}, player1 (O) won {wins[1]}"
    said += (f", {drawn} drawn" if drawn else "") + ("" if over else ", 1 not over")
    text = repr(RolloutPlayer(rollout, env))
    assert said in text and "  step 0: player0 (X) to move\n" in text
    assert f"It is a game in turns: {said}." in RolloutPlayer(rollout, env).explain()


def test_without_the_drawing_players_have_no_sign(games):
    assert player_model(games[1]).turns.players == ("player0", "player1")


def test_other_data_are_no_game(cartpole):
    assert player_model(cartpole).turns is None


def test_captions_in_the_page(browse, games):
    env, rollout = games
    last = int(rollout["next", "terminated"].flatten().nonzero()[0])

    def act(page):
        return page.locator(".rlnb-caption").all_inner_texts()

    root, after = browse(RolloutPlayer(rollout, env, t=last), act)
    turns = player_model(rollout, env).turns
    assert root == f"root at {last}: {turns.at(0, last)}"
    assert after == f'"next" at {last + 1}: {turns.winner(0, last)}'


def test_a_batch_of_games_names_the_turn_of_each(browse):
    env = ConnectFourEnv(batch_size=[3], seed=0)
    rollout = env.rollout(12, break_when_any_done=False)
    found = browse(RolloutPlayer(rollout, env, t=3), lambda page: page.locator(".rlnb-cell").all_inner_texts())
    assert all(text.endswith("ep. 1, O to move") for text in found) and len(found) == 3


def test_long_games_make_a_small_page():
    env = ConnectFourEnv(batch_size=[16], seed=0)
    rollout = env.rollout(200, break_when_any_done=False)
    player = RolloutPlayer(rollout, env)
    # 48 parts of 6 bytes each were 290 bytes for each of the frames
    assert len(player._columns) < 35 * 16 * 200
