"""GRUModule and LSTMModule: step by step, over sequences, in envs; primers and modes."""

from __future__ import annotations

import copy
import pickle
import re

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

from rlnb.envs import (
    CartPoleEnv,
    Compose,
    GymEnv,
    InitTracker,
    SerialEnv,
    TensorDictPrimer,
    TransformedEnv,
    check_env_specs,
)
from rlnb.modules import (
    GRU,
    LSTM,
    GRUCell,
    GRUModule,
    LSTMCell,
    LSTMModule,
    get_primers_from_module,
    recurrent_mode,
    set_recurrent_mode,
)
from rlnb.modules.utils import get_primers_from_module as from_utils
from tests.pairwise import sampled

kinds = pytest.mark.parametrize("kind", [GRUModule, LSTMModule])
python_based = pytest.mark.parametrize("python_based", [False, True])


def message(error, text):
    return pytest.raises(error, match=f"^{re.escape(text)}$")


def make(kind, **kwargs):
    torch.manual_seed(0)
    return kind(input_size=3, hidden_size=4, in_key="observation", out_key="features", **kwargs)


def states(module):
    return module.in_keys[1:-1]


def sequences(batch, time, module, starts=0.3, seed=0):
    """Data with random starts, and random states at each step."""
    generator = torch.Generator().manual_seed(seed)
    data = TensorDict({"observation": torch.randn(*batch, time, 3, generator=generator)}, [*batch, time])
    data["is_init"] = torch.rand(*batch, time, 1, generator=generator) < starts
    for key, shape in zip(states(module), module._state_shapes(), strict=True):
        data[key] = torch.randn(*batch, time, *shape, generator=generator)
    return data


def step_by_step(module, data):
    """Run over sequences one step at a time; give the results and the states after each step."""
    outputs, after = [], []
    state = data[..., 0].select(*states(module))
    for t in range(data.batch_size[-1]):
        step = data[..., t].select(module.in_keys[0], "is_init").update(state)
        step = module(step)
        state = step["next"].select(*states(module))
        outputs.append(step["features"])
        after.append(state)
    return torch.stack(outputs, data.ndim - 1), torch.stack(after, data.ndim - 1)


# Step by step and over sequences ------------------------------------------------------------------------------------


@kinds
@python_based
@pytest.mark.parametrize(("layers", "starts", "batch"), sampled([1, 2], [0.0, 0.3, 1.0], [(), (5,), (2, 3)]))
def test_sequences_give_what_steps_give(kind, python_based, layers, starts, batch):
    module = make(kind, num_layers=layers, python_based=python_based)
    data = sequences(batch, 9, module, starts)
    expected, after = step_by_step(module, data)
    with set_recurrent_mode(True):
        found = module(data.clone())
    torch.testing.assert_close(found["features"], expected, atol=1e-6, rtol=0)
    following = torch.cat([data["is_init"][..., 1:, 0], torch.ones(*batch, 1, dtype=torch.bool)], -1)
    for key in states(module):
        torch.testing.assert_close(found["next", key][following], after[key][following], atol=1e-6, rtol=0)
        assert not found["next", key][~following].any()


@kinds
@python_based
def test_gradients_of_sequences_are_those_of_steps(kind, python_based):
    module = make(kind, num_layers=2, python_based=python_based)
    data = sequences((3,), 7, module)
    step_by_step(module, data)[0].square().sum().backward()
    expected = [parameter.grad.clone() for parameter in module.parameters()]
    module.zero_grad()
    with set_recurrent_mode(True):
        module(data)["features"].square().sum().backward()
    for parameter, gradient in zip(module.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-5, rtol=1e-4)


@kinds
def test_a_start_forgets_the_state_and_only_there(kind):
    module = make(kind)
    data = sequences((4,), 1, module, starts=0)[:, 0]
    data["is_init"] = torch.tensor([[True], [False], [True], [False]])
    found = module(data.clone())["features"]
    fresh = module(data.exclude(*states(module)))["features"]
    assert torch.equal(found[[0, 2]], fresh[[0, 2]])
    assert not torch.isclose(found[[1, 3]], fresh[[1, 3]]).any()


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_a_projected_lstm():
    module = make(LSTMModule, proj_size=2)
    data = sequences((3,), 6, module)
    with set_recurrent_mode(True):
        found = module(data.clone())
    assert found["features"].shape == (3, 6, 2)
    assert found["next", "recurrent_state_h"].shape == (3, 6, 1, 2)
    torch.testing.assert_close(found["features"], step_by_step(module, data)[0], atol=1e-6, rtol=0)


@kinds
def test_own_keys(kind):
    n = len(kind.DEFAULT_IN_KEYS)
    inner = [("deep", f"h{i}") for i in range(n)]
    module = kind(3, 4, in_keys=["x", *inner, "first"], out_keys=["y", *(("next", *key) for key in inner)])
    data = TensorDict({"x": torch.ones(2, 3), "first": torch.zeros(2, 1, dtype=torch.bool)}, [2])
    out = module(data)
    assert out["y"].shape == (2, 4) and out["next", "deep", "h0"].shape == (2, 1, 4)
    assert module.in_keys[-1] == "first"
    assert kind(3, 4, in_keys=["x", *inner], out_key="y").in_keys[-1] == "is_init"


@kinds
def test_as_a_function(kind):
    module = make(kind)
    zeros = [torch.zeros(1, 4) for _ in states(module)]
    out = module(
        observation=torch.ones(3),
        is_init=torch.ones(1, dtype=torch.bool),
        **dict(zip(states(module), zeros, strict=True)),
    )
    assert out[0].shape == (4,)


# In envs ------------------------------------------------------------------------------------------------------------


def policy(kind):
    memory = kind(input_size=4, hidden_size=8, in_key="observation", out_key="features")
    return TensorDictSequential(memory, TensorDictModule(Choice(), ["features"], ["action"]))


class Choice(nn.Linear):
    def __init__(self):
        super().__init__(8, 2)

    def forward(self, features):
        return nn.functional.one_hot(super().forward(features).argmax(-1), 2)


@kinds
@pytest.mark.parametrize(
    "base",
    [
        lambda: GymEnv("CartPole-v1"),
        lambda: CartPoleEnv(batch_size=[3], max_steps=6),
        lambda: SerialEnv(2, lambda: GymEnv("CartPole-v1")),
    ],
)
def test_a_rollout_and_its_replay_in_recurrent_mode(kind, base):
    torch.manual_seed(0)
    actor = policy(kind)
    env = TransformedEnv(base(), InitTracker()).append_transform(get_primers_from_module(actor))
    check_env_specs(env)
    env.set_seed(0)
    with torch.no_grad():
        found = env.rollout(30, actor, break_when_any_done=False)
    assert found["is_init"].sum() > found["is_init"].shape[0] if found.ndim == 2 else found["is_init"].any()
    for key in states(actor[0]):
        going_on = ~found["is_init"][..., 1:, 0]
        assert torch.equal(found[key][..., 1:, :, :][going_on], found["next", key][..., :-1, :, :][going_on])
        assert not found[key][found["is_init"][..., 0]].any() and found[key].any()
    with torch.no_grad(), set_recurrent_mode(True):
        again = actor(found.select(*actor.in_keys, strict=False))
    torch.testing.assert_close(again["features"], found["features"], atol=1e-6, rtol=0)
    assert torch.equal(again["action"], found["action"])


@kinds
def test_primers(kind):
    module = make(kind, num_layers=2)
    primer = module.make_tensordict_primer()
    assert isinstance(primer, TensorDictPrimer)
    assert {key: tuple(spec.shape) for key, spec in primer.primers.items()} == dict.fromkeys(states(module), (2, 4))
    env = TransformedEnv(CartPoleEnv(batch_size=[2]), primer)
    assert env.reset()[states(module)[0]].shape == (2, 2, 4)
    # A primer of a module in double precision is in double precision.
    spec = make(kind).double().make_tensordict_primer().primers[states(module)[0]]
    assert spec.dtype == torch.float64


def test_primers_of_a_policy():
    assert from_utils is get_primers_from_module
    both = get_primers_from_module(nn.Sequential(make(GRUModule), make(LSTMModule)))
    assert isinstance(both, Compose) and len(both) == 2
    one = get_primers_from_module(make(GRUModule))
    assert isinstance(one, TensorDictPrimer)
    with pytest.warns(UserWarning, match="^This Linear has no recurrent module, so there is no initial state"):
        assert get_primers_from_module(nn.Linear(1, 1)) is None
    assert get_primers_from_module(nn.Linear(1, 1), warn=False) is None


# Modes --------------------------------------------------------------------------------------------------------------


def test_modes():
    assert recurrent_mode() is None
    with set_recurrent_mode("recurrent"):
        assert recurrent_mode() is True
        with set_recurrent_mode("sequential"):
            assert recurrent_mode() is False
            with set_recurrent_mode(None):
                assert recurrent_mode() is None
        assert recurrent_mode() is True
    with pytest.raises(RuntimeError, match="oops"), set_recurrent_mode(True):
        raise RuntimeError("oops")
    assert recurrent_mode() is None

    @set_recurrent_mode(True)
    def depth(n):
        """Call itself."""
        assert recurrent_mode() is True
        return n and 1 + depth(n - 1)

    assert depth(3) == 3 and depth.__doc__ == "Call itself." and recurrent_mode() is None
    for wrong in ("x", 2, 1):
        with message(
            ValueError,
            f"There is no recurrent mode {wrong!r}. The modes are: True, False, 'recurrent', 'sequential' and None.",
        ):
            set_recurrent_mode(wrong)


@kinds
def test_the_mode_of_a_module(kind):
    module = make(kind)
    whole = module.set_recurrent_mode(True)
    assert (module.recurrent_mode, whole.recurrent_mode) == (False, True) and whole is not module
    assert all(a is b for a, b in zip(module.parameters(), whole.parameters(), strict=True))
    data = sequences((2,), 5, module)
    with set_recurrent_mode(True):
        expected = module(data.clone())["features"]
        assert module.recurrent_mode
    assert torch.equal(whole(data.clone())["features"], expected)
    with set_recurrent_mode(False):
        assert not whole.recurrent_mode
    assert make(kind, default_recurrent_mode=True).recurrent_mode
    assert not whole.set_recurrent_mode(False).recurrent_mode


# Networks -----------------------------------------------------------------------------------------------------------


@kinds
def test_python_and_torch_are_exchanged_with_their_parameters(kind):
    module = make(kind, num_layers=2)
    data = sequences((2,), 5, module)
    parameters = dict(module.named_parameters())
    with set_recurrent_mode(True):
        expected = module(data.clone())["features"]
        assert module.make_python_based() is module
        assert isinstance(module.net, (GRU, LSTM)) and module.net.batch_first
        torch.testing.assert_close(module(data.clone())["features"], expected, atol=1e-6, rtol=0)
        module.make_cudnn_based()
        assert type(module.net) in (nn.GRU, nn.LSTM)
        assert torch.equal(module(data.clone())["features"], expected)
    assert all(dict(module.named_parameters())[name] is value for name, value in parameters.items())


@pytest.mark.parametrize(("python", "torchs"), [(GRU, nn.GRU), (LSTM, nn.LSTM)])
@pytest.mark.parametrize("batch_first", [True, False])
def test_networks_in_python(python, torchs, batch_first):
    torch.manual_seed(0)
    fast = torchs(3, 4, num_layers=2, batch_first=batch_first)
    slow = python(3, 4, num_layers=2, batch_first=batch_first)
    slow.load_state_dict(fast.state_dict())
    value = torch.randn(5, 6, 3)
    for found, expected in zip(slow(value), fast(value), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(slow(value, fast(value)[1])[0], fast(value, fast(value)[1])[0], atol=1e-6, rtol=0)
    dropping = python(3, 4, num_layers=2, dropout=0.5)
    assert not torch.equal(dropping(value)[0], dropping(value)[0])
    assert torch.equal(dropping.eval()(value)[0], dropping(value)[0])


@pytest.mark.parametrize(("python", "torchs"), [(GRUCell, nn.GRUCell), (LSTMCell, nn.LSTMCell)])
@pytest.mark.parametrize("bias", [True, False])
def test_cells_in_python(python, torchs, bias):
    slow, fast = python(3, 4, bias=bias), torchs(3, 4, bias=bias)
    slow.load_state_dict(fast.state_dict())
    value = torch.randn(5, 3)
    for _ in range(2):
        state, expected = slow(value), fast(value)
        torch.testing.assert_close(state, expected, atol=1e-6, rtol=0)
        torch.testing.assert_close(slow(value, state), fast(value, expected), atol=1e-6, rtol=0)


def test_networks_in_python_can_be_mapped():
    nets = [GRU(3, 4) for _ in range(3)]
    parameters, _ = torch.func.stack_module_state(nets)
    value = torch.randn(2, 5, 3)

    def run(parameters):
        return torch.func.functional_call(nets[0], (parameters, {}), (value,))[0]

    found = torch.vmap(run)(parameters)
    for net, result in zip(nets, found, strict=True):
        torch.testing.assert_close(result, net(value)[0], atol=1e-6, rtol=0)


@kinds
def test_a_network_that_is_given_and_copies(kind):
    net = kind._torch_class(3, 4, batch_first=True)
    module = kind(**{kind._name: net}, in_key="observation", out_key="features")
    assert module.net is net and f"{kind._name}={net!r}" in repr(module)
    data = sequences((2,), 1, module)[:, 0]
    expected = module(data.clone())["features"]
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(other(data.clone())["features"], expected)


# Bad input ----------------------------------------------------------------------------------------------------------


@kinds
def test_bad_input_of_the_constructor(kind):
    name, n = kind.__name__, len(kind.DEFAULT_IN_KEYS) + 1
    with message(ValueError, f"{name} needs one of in_key and in_keys, got none. Fix: in_key='observation'."):
        kind(3, 4, out_key="y")
    with message(ValueError, f"{name} needs one of out_key and out_keys, got both. Fix: out_key='features'."):
        kind(3, 4, in_key="x", out_key="y", out_keys=["y"])
    with message(
        ValueError,
        f"{name} reads {n} entries (features, {', '.join(kind.DEFAULT_IN_KEYS)}), optionally 'is_init' under another "
        f"key, and writes {n}; got in_keys=['x'] and out_keys={['y', *kind.DEFAULT_OUT_KEYS]}.",
    ):
        kind(3, 4, in_keys=["x"], out_key="y")
    with message(TypeError, f"input_size must be an integer, got None. Fix: {name}(input_size=64, ...)."):
        kind(in_key="x", out_key="y")
    with message(ValueError, f"{name} takes data of shape [batch, time, ...]. Fix: batch_first=True."):
        kind(3, 4, batch_first=False, in_key="x", out_key="y")
    with message(
        ValueError,
        f"{name} must also run step by step, without later steps, so it cannot be bidirectional. "
        "Fix: leave bidirectional out.",
    ):
        kind(3, 4, bidirectional=True, in_key="x", out_key="y")
    wrong = nn.RNN(3, 4, batch_first=True)
    with message(TypeError, f"{kind._name}= must be a {kind._torch_class.__name__}, got a RNN."):
        kind(**{kind._name: wrong}, in_key="x", out_key="y")
    net = kind._torch_class(3, 4, batch_first=True)
    with message(ValueError, f"{name} takes either {kind._name}= or sizes, got both. Fix: give one of them."):
        kind(3, **{kind._name: net}, in_key="x", out_key="y")
    python = kind._python_class.__name__
    with message(
        ValueError,
        f"{python} of rlnb.modules, which is written in Python, has no bidirectional. "
        f"Fix: torch.nn.{python}(..., bidirectional=True).",
    ):
        kind._python_class(3, 4, bidirectional=True)


@kinds
def test_bad_data(kind):
    module, name = make(kind), kind.__name__
    data = sequences((2,), 5, module)
    with message(
        KeyError,
        repr(
            f"{name} reads 'is_init', and the data has: 'observation'. It marks where the state is reset. "
            "Fix: env.append_transform(InitTracker())."
        ),
    ):
        module(data.select("observation"))
    with pytest.raises(KeyError, match=f"{name} reads 'observation', and the data has: 'is_init'"):
        module(data.exclude("observation"))
    with message(
        ValueError,
        f"{name} reads 'observation' of shape (2, 5, 3), got (2, 5, 7). Fix: {name}(input_size=7), or flatten "
        "it first.",
    ):
        module(data.clone().set("observation", torch.zeros(2, 5, 7)))
    key = states(module)[0]
    with message(
        ValueError,
        f"The state {key!r} must have shape (2, 5, 1, 4), [*batch, num_layers, size], got (2, 5, 4). "
        "Fix: env.append_transform(module.make_tensordict_primer()).",
    ):
        module(data.clone().set(key, torch.zeros(2, 5, 4)))
    with (
        set_recurrent_mode(True),
        message(
            ValueError,
            f"{name} is in recurrent mode, where the last dimension of the data is time, and the data has batch size "
            "(). Fix: with set_recurrent_mode(False), or leave the mode out for single steps.",
        ),
    ):
        module(data[0, 0])
