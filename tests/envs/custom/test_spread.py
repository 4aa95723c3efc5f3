"""SpreadEnv: specs of every kind, the rules compared with a slow reference, rewards, invalid input and seeds."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlnb.data import Categorical, OneHot
from rlnb.envs import MarlGroupMapType, SpreadEnv, check_env_specs, step_mdp
from rlnb.envs.custom.grid_world import move_table
from rlnb.envs.custom.spread import MOVES, settle
from tests.envs.custom.spreads import act, index_env, state_of
from tests.pairwise import sampled

BATCHES = [(), (1,), (3,), (2, 2)]
STAY, LEFT, DOWN, RIGHT, UP = range(5)
PAIRS = {"red": ["agent_2", "agent_0"], "blue": ["agent_1"]}
GROUPS = {
    "all in one": MarlGroupMapType.ALL_IN_ONE_GROUP,
    "one each": MarlGroupMapType.ONE_GROUP_PER_AGENT,
    "pairs": PAIRS,
}


# Specs ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch", "categorical", "shared_reward", "ends", "extras"),
    sampled(
        BATCHES,
        {"categorical": True, "one-hot": False},
        {"shared reward": True, "own rewards": False},
        ["root", "all", "any"],
        {"mask and info": True, "bare": False},
    ),
)
def test_specs_hold(batch, categorical, shared_reward, ends, extras):
    env = SpreadEnv(
        batch_size=batch,
        categorical_action_encoding=categorical,
        shared_reward=shared_reward,
        agent_done=ends != "root",
        done_on_any=ends == "any",
        action_mask=extras,
        info=extras,
    )
    check_env_specs(env, seed=0)
    assert isinstance(env.action_spec, Categorical if categorical else OneHot)
    assert env.action_spec.shape == ((*batch, 3) if categorical else (*batch, 3, 5))
    assert env.reward_spec.shape == ((*batch, 1) if shared_reward else (*batch, 3, 1))
    assert env.reward_key == ("reward" if shared_reward else ("agents", "reward"))
    assert env.action_key == ("agents", "action")
    assert env.reset_keys == (["_reset"] if ends == "root" else ["_reset", ("agents", "_reset")])
    data = env.rollout(3)
    assert data["agents"].batch_size == (*batch, data.shape[-1], 3)
    assert (("agents", "action_mask") in data.keys(True)) is (("agents", "info") in data.keys(True)) is extras
    for key, spec in env.observation_spec.items(True, True):
        assert spec.is_in(data[..., 0][key]), key


@pytest.mark.parametrize(
    ("group_map", "batch", "agent_done", "shared_reward", "categorical"),
    sampled(
        GROUPS,
        [(), (2, 2)],
        [True, False],
        [True, False],
        [True, False],
    ),
)
def test_any_grouping_is_the_same_env(group_map, batch, agent_done, shared_reward, categorical):
    options = {
        "batch_size": batch,
        "agent_done": agent_done,
        "shared_reward": shared_reward,
        "categorical_action_encoding": categorical,
        "info": True,
        "action_mask": True,
        "seed": 3,
    }
    plain, env = SpreadEnv(**options), SpreadEnv(group_map=group_map, **options)
    check_env_specs(env)
    td, other = plain.reset(), env.reset()
    for _ in range(8):
        action = plain.action_spec.rand()
        td = plain.step(td.set(("agents", "action"), action))
        for group, names in env.group_map.items():
            members = [plain.agent_names.index(name) for name in names]
            other[group, "action"] = action[(slice(None),) * len(batch) + (members,)]
        other = env.step(other)
        assert (td["next"].exclude("agents") == other["next"].exclude(*env.group_map)).all()
        for group, names in env.group_map.items():
            assert other["next", group].batch_size == (*batch, len(names))
            for k, name in enumerate(names):
                mine = td["next", "agents"][..., plain.agent_names.index(name)]
                assert (other["next", group][..., k] == mine).all(), (group, name)
        td, other = plain._step_mdp(td).exclude("done"), env._step_mdp(other).exclude("done")


def test_one_agent_and_a_long_grid():
    env = SpreadEnv(1, (1, 2), info=True, agent_done=True, categorical_action_encoding=True, seed=0)
    check_env_specs(env)
    data = env.rollout(9, lambda *_: torch.tensor([RIGHT]))
    assert data["agents", "observation"].shape[1:] == (1, 4)


# The rules ------------------------------------------------------------------------------------------------------------


def slow_settle(cells, wanted):
    """The rules, said in another way: all go; whoever then clashes goes back; until nobody does."""
    n = len(cells)
    met = {frozenset(pair) for pair in itertools.combinations(range(n), 2) if swaps(cells, wanted, *pair)}
    back = {i for pair in met for i in pair}
    while True:
        at = [cells[i] if i in back else wanted[i] for i in range(n)]
        clashes = {frozenset(pair) for pair in itertools.combinations(range(n), 2) if at[pair[0]] == at[pair[1]]}
        if not clashes:
            return at, [sum(i in pair for pair in met) for i in range(n)]
        met |= clashes
        back |= {i for pair in clashes for i in pair}


def swaps(cells, wanted, i, j):
    return wanted[i] == cells[j] and wanted[j] == cells[i]


@given(data=st.data(), n=st.integers(1, 6), rows=st.integers(1, 4), columns=st.integers(2, 4))
def test_moves_are_settled_as_the_rules_say(data, n, rows, columns):
    n = min(n, rows * columns)
    cells = data.draw(st.permutations(range(rows * columns)))[:n]
    moves = data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    wanted = []
    for cell, (down, right) in zip(cells, (list(MOVES.values())[m] for m in moves), strict=True):
        r, c = cell // columns + down, cell % columns + right
        wanted.append(r * columns + c if 0 <= r < rows and 0 <= c < columns else cell)
    table = move_table(rows, columns, MOVES)
    assert table[torch.tensor(cells), torch.tensor(moves)].tolist() == wanted
    after, met = settle(torch.tensor(cells), torch.tensor(wanted))
    assert (after.tolist(), met.tolist()) == slow_settle(cells, wanted)
    assert len(set(after.tolist())) == n


@pytest.mark.parametrize(
    ("cells", "wanted", "after", "met"),
    [
        ([0, 2], [1, 1], [0, 2], [1, 1]),  # into one cell
        ([0, 1], [1, 0], [0, 1], [1, 1]),  # past one another
        ([0, 1], [1, 1], [0, 1], [1, 1]),  # into one that stays
        ([0, 1], [1, 2], [1, 2], [0, 0]),  # one behind the other
        ([0, 1, 3, 2], [1, 3, 2, 0], [1, 3, 2, 0], [0, 0, 0, 0]),  # round in a ring
        ([0, 1, 2], [1, 2, 2], [0, 1, 2], [1, 2, 1]),  # a queue that is held
    ],
)
def test_who_meets_whom(cells, wanted, after, met):
    found = settle(torch.tensor([cells, cells]), torch.tensor([wanted, cells]))
    assert [part[0].tolist() for part in found] == [after, met]
    assert [part[1].tolist() for part in found] == [cells, [0] * len(cells)], "a batch is settled row by row"


@given(
    seed=st.integers(0, 2**31),
    n=st.integers(1, 4),
    size=st.tuples(st.integers(2, 4), st.integers(4, 5)),
    agent_done=st.booleans(),
    shared=st.booleans(),
    penalty=st.sampled_from([0.0, 1.0, 2.5]),
)
def test_a_step_is_what_a_slow_reference_says(seed, n, size, agent_done, shared, penalty):
    env = SpreadEnv(
        n, size, agent_done=agent_done, shared_reward=shared, collision_penalty=penalty, info=True, action_mask=True,
        batch_size=[2], seed=seed, categorical_action_encoding=True, max_steps=6,
    )  # fmt: skip
    td = env.reset()
    for t in range(7):
        before = td["state"].tolist()
        td = env.rand_action(td)
        after = env.step(td)["next"]
        for copy in range(2):
            moves = td["agents", "action"][copy].tolist()
            want = reference(before[copy], moves, size, agent_done, penalty)
            found = {"state": after["state"][copy].tolist(), "terminated": after["terminated"][copy].item()}
            assert found == {key: want[key] for key in found}
            reward = after["reward"][copy] if shared else after["agents", "reward"][copy, :, 0]
            own = torch.tensor(want["reward"])
            torch.testing.assert_close(reward, own.mean(0, keepdim=True) if shared else own)
            assert after["agents", "observation"][copy].tolist() == want["observation"]
            assert after["agents", "info", "distance"][copy, :, 0].tolist() == want["distance"]
            assert after["agents", "info", "collisions"][copy, :, 0].tolist() == [row[2] for row in want["state"][:n]]
            assert after["agents", "action_mask"][copy].tolist() == want["mask"]
            assert after["truncated"][copy].item() is (t + 1 >= 6)
            if agent_done:
                assert after["agents", "terminated"][copy, :, 0].tolist() == want["ended"]
        td = env._step_mdp(td).exclude("done")


def reference(state, moves, size, agent_done, penalty):
    """One copy in plain Python."""
    n = len(moves)
    rows, columns = size
    agents, goals = [tuple(row[:2]) for row in state[:n]], [tuple(row[:2]) for row in state[n:]]
    ended = [a in goals for a in agents] if agent_done else [all(g in agents for g in goals)] * n
    wanted = []
    for (r, c), move, over in zip(agents, moves, ended, strict=True):
        down, right = list(MOVES.values())[move]
        inside = 0 <= r + down < rows and 0 <= c + right < columns
        wanted.append((r + down, c + right) if inside and not over else (r, c))
    agents, met = slow_settle(agents, wanted)

    def far(a, b):
        return abs(a[0] - b[0]) + abs(a[1] - b[1])

    team = -sum(min(far(g, a) for a in agents) for g in goals)
    now = [a in goals for a in agents]
    masks = []
    for (r, c), parked in zip(agents, now, strict=True):
        inside = [0 <= r + d < rows and 0 <= c + s < columns for d, s in MOVES.values()]
        masks.append([k == 0 or (ok and not (agent_done and parked)) for k, ok in enumerate(inside)])
    return {
        "state": [[*a, m] for a, m in zip(agents, met, strict=True)] + [[*g, int(g in agents)] for g in goals],
        "terminated": all(g in agents for g in goals),
        "ended": now,
        "reward": [0.0 if over else team - penalty * m for over, m in zip(ended, met, strict=True)],
        "distance": [min(far(g, a) for g in goals) for a in agents],
        "mask": masks,
        "observation": [
            [*a, *(x - y for g in goals for x, y in zip(g, a, strict=True)), *(
                x - y for j, b in enumerate(agents) if j != i for x, y in zip(b, a, strict=True)
            )]
            for i, a in enumerate(agents)
        ],
    }  # fmt: skip


def test_covering_all_landmarks_ends_it():
    env, td = index_env(2, 3, [(0, 0), (2, 2)], [(0, 1), (2, 1)])
    after = act(env, td, RIGHT, UP)
    assert after["state"][:, 2].tolist() == [0, 0, 1, 0] and not after["done"]
    assert after["agents", "reward"].flatten().tolist() == [-2.0, -2.0]
    td = step_mdp(env.step(td), action_keys=env.action_keys, reward_keys=env.reward_keys)
    td = env.step(td.set(("agents", "action"), torch.tensor([STAY, DOWN])))
    td = env._step_mdp(td)
    after = act(env, td, STAY, LEFT)
    assert after["terminated"] and not after["truncated"]
    assert after["agents", "reward"].flatten().tolist() == [0.0, 0.0]
    over = act(env, env._step_mdp(td), LEFT, LEFT)
    assert over["terminated"] and torch.equal(over["state"], after["state"]), "beyond the end nobody moves"


def test_a_shared_reward_is_the_mean_of_the_agents():
    where = [(0, 0), (0, 1), (2, 2)], [(1, 0), (1, 2), (2, 0)]
    moves = (RIGHT, STAY, STAY)
    own = act(*index_env(3, 3, *where), *moves)["agents", "reward"]
    shared = act(*index_env(3, 3, *where, shared_reward=True), *moves)
    assert own.flatten().tolist() == [-5.0, -5.0, -4.0]
    assert ("agents", "reward") not in shared.keys(True)
    torch.testing.assert_close(shared["reward"], own.mean(0))


def test_places_are_drawn_apart_and_everywhere():
    env = SpreadEnv(2, (2, 3), batch_size=[3000], seed=0)
    state = env.reset()["state"]
    cells = state[..., 0] * 3 + state[..., 1]
    assert (cells.sort(-1).values.diff(dim=-1) > 0).all()
    counts = torch.stack([torch.bincount(cells[:, k], minlength=6) for k in range(4)])
    assert (counts > 400).all() and counts.shape == (4, 6)
    assert (state[..., 2] == 0).all()


# Bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"n_agents": 0}, "SpreadEnv needs at least one agent, and n_agents is 0."),
        (
            {"n_agents": 3, "size": (1, 5)},
            "3 agents and 3 landmarks start in 6 different cells, and a grid of 1 x 5 has fewer. "
            "Fix: a larger size=..., or fewer agents.",
        ),
        (
            {"done_on_any": True},
            "done_on_any=True needs agent_done=True. Fix: set both.",
        ),
        (
            {"group_map": {"state": ["agent_0", "agent_1", "agent_2"]}},
            "A group cannot be called 'state': that is an entry of the root. Fix: rename it.",
        ),
        (
            {"group_map": {"team": ["agent_0", "agent_1"]}},
            "The groups do not fit the agents ['agent_0', 'agent_1', 'agent_2']:\n"
            "  - The agent 'agent_2' is in no group. Fix: add it to one, such as 'team', or to a group of its own.",
        ),
    ],
)
def test_what_cannot_be_made(options, text):
    with pytest.raises(ValueError) as error:
        SpreadEnv(**options)
    assert str(error.value) == text


def test_an_invalid_action_is_rejected_and_nothing_moves():
    env, td = index_env(2, 3)
    state = env._state.clone()
    with pytest.raises(ValueError) as error:
        act(env, td, 0, 5)
    assert str(error.value) == "SpreadEnv got the action 5 at index (1,), and its actions are 0 to 4."
    assert torch.equal(env._state, state) and not env._steps.any()


PLACES = (
    "SpreadEnv.reset(state=...) takes the row and column of 2 agents in different cells, then of 2 landmarks in "
    "different cells, on a grid of 3 x 3."
)
NO_START = "SpreadEnv.reset(state=...) got a state in which no episode can start: "


@pytest.mark.parametrize(
    ("agents", "landmarks", "options", "text"),
    [
        ([(0, 0), (0, 0)], [(1, 1), (2, 2)], {}, PLACES),
        ([(0, 0), (0, 1)], [(1, 1), (1, 1)], {}, PLACES),
        ([(0, 0), (0, 3)], [(1, 1), (2, 2)], {}, PLACES),
        ([(0, 0), (0, -1)], [(1, 1), (2, 2)], {}, PLACES),
        ([(1, 1), (2, 2)], [(2, 2), (1, 1)], {}, NO_START + "with all landmarks covered it is over."),
        ([(1, 1), (0, 0)], [(2, 2), (1, 1)], {"agent_done": True}, NO_START + "an agent on a landmark is done."),
    ],
)
def test_a_state_that_cannot_be_one_is_refused(agents, landmarks, options, text):
    env, _ = index_env(2, 3, **options)
    state = env._state.clone()
    with pytest.raises(ValueError) as error:
        env.reset(state=state_of(agents, landmarks))
    assert str(error.value) == text
    assert torch.equal(env._state, state)


def test_a_state_that_came_out_goes_in_again():
    env = SpreadEnv(2, 4, batch_size=[3], seed=0)
    state = env.rollout(3, break_when_any_done=False)["next", "state"][:, -1]
    again = env.reset(state=state)["state"]
    assert torch.equal(again[..., :2], state[..., :2]) and torch.equal(again[:, 2:], state[:, 2:])
    assert not again[:, :2, 2].any(), "nobody has collided yet"


def test_a_first_reset_is_a_full_one():
    env = SpreadEnv(2, agent_done=True, seed=0)
    td = env.fake_tensordict().exclude("next")
    td["agents", "_reset"] = torch.tensor([[True], [False]])
    with pytest.raises(RuntimeError, match="A partial reset was requested of a SpreadEnv that was never reset"):
        env.reset(td)
    td = env.reset()
    td["agents", "_reset"] = torch.tensor([[True], [False]])
    with pytest.raises(ValueError) as error:
        env.reset(td, state=td["state"])
    assert str(error.value) == "A reset of single agents draws their places: state=... is for a reset at the root."


# Seeds, memory, size --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent_done", [True, False])
def test_one_seed_is_one_rollout_and_torchs_generator_is_left_alone(agent_done):
    outer = torch.get_rng_state()
    options = {"batch_size": [3], "agent_done": agent_done, "max_steps": 5}
    first = SpreadEnv(seed=4, **options).rollout(15, break_when_any_done=False)
    torch.set_rng_state(outer)
    env = SpreadEnv(**options)
    env.set_seed(4)
    check_env_specs(env)
    assert (env.rollout(15, break_when_any_done=False) == first).all()


def test_the_data_of_a_step_is_the_readers_own():
    options = {"batch_size": [3], "agent_done": True, "info": True, "action_mask": True, "seed": 0}
    env, twin = SpreadEnv(**options), SpreadEnv(**options)
    td, other = env.reset(), twin.reset()
    for _ in range(5):
        action = env.action_spec.rand()
        td = env.step(td.set(("agents", "action"), action))
        other = twin.step(other.set(("agents", "action"), action))
        assert (td["next"] == other["next"]).all()
        td, other = env._step_mdp(td), twin._step_mdp(other)
        kept = td.clone()
        for leaf in td.values(True, True):
            leaf.zero_()
        td = kept


@pytest.mark.parametrize("device", [None, "cpu", *(["cuda"] if torch.cuda.is_available() else [])])
def test_the_device_is_stated_or_not(device):
    env = SpreadEnv(batch_size=[2], device=device, agent_done=True, info=True, action_mask=True, group_map=PAIRS)
    check_env_specs(env)
    data = env.rollout(3)
    assert data.device == data["red"].device == (None if device is None else env.device)
    assert {leaf.device.type for leaf in data.values(True, True)} == {device or "cpu"}


def test_thousands_of_copies_fit_into_one_process():
    env = SpreadEnv(4, batch_size=[4096], seed=0)
    data = env.rollout(4, break_when_any_done=False)
    assert data["next", "agents", "reward"].shape == (4096, 4, 4, 1)
    assert len({tuple(row.flatten().tolist()) for row in data["state"][:, 0]}) > 4000
