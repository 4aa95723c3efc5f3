"""An env is a torch.nn.Module: all of its methods work, and the env keeps working."""

from __future__ import annotations

import warnings

import pytest
import torch
from tensordict import TensorDict, TensorDictBase
from torch import nn

from rlnb.data import Categorical, Unbounded
from rlnb.envs import EnvBase, GymEnv, PendulumEnv
from tests.envs.kinds import KINDS, make

EVERY = pytest.mark.parametrize("kind", KINDS)


class Bare(EnvBase):
    """No more than the three methods that a subclass writes, a module, and a state of its own."""

    def __init__(self):
        super().__init__()
        self.observation_spec = Unbounded(shape=(1,))
        self.action_spec = Categorical(2)
        self.layer = nn.Linear(1, 1)
        self.register_buffer("scale", torch.ones(1))
        self.note = "as made"

    def _reset(self, tensordict):
        return TensorDict({"observation": torch.zeros(1)})

    def _step(self, tensordict):
        observation = self.layer(tensordict["observation"] * self.scale) + tensordict["action"]
        return TensorDict({"observation": observation, "reward": observation, "done": observation > 9})

    def _set_seed(self, seed):
        self.seed = seed

    def get_extra_state(self):
        return {"note": self.note}

    def set_extra_state(self, state):
        self.note = state["note"]


def step_of(env: EnvBase) -> TensorDictBase:
    return env(env.rand_action(env.reset()))


def test_three_methods_make_an_env():
    assert EnvBase.__abstractmethods__ == {"_reset", "_step", "_set_seed"}
    env = Bare()
    assert env.set_seed(3) != 3 and env.seed == 3  # and _reset takes no seed
    assert env.rollout(4).batch_size == (4,)


@EVERY
def test_every_env_is_a_module(kind):
    env = make(kind)
    assert isinstance(env, nn.Module)
    td = env.rand_action(env.reset())
    assert env(td) is td and "next" in td


METHODS = {  # what each does to a Bare env
    "add_module": lambda env: (env.add_module("more", nn.Tanh()), env.more)[1].extra_repr() == "",
    "apply": lambda env: (
        env.apply(lambda m: nn.init.zeros_(m.bias) if isinstance(m, nn.Linear) else None) is env
        and env.layer.bias.item() == 0
    ),
    "bfloat16": lambda env: env.bfloat16() is env and env.layer.weight.dtype == torch.bfloat16,
    "buffers": lambda env: [b is env.scale for b in env.buffers()] == [True],
    "children": lambda env: list(env.children()) == [env.layer],
    "cpu": lambda env: env.cpu() is env and env.layer.weight.device.type == "cpu",
    "double": lambda env: env.double() is env and env.scale.dtype == torch.float64,
    "eval": lambda env: env.eval() is env and not env.layer.training,
    "extra_repr": lambda env: env.extra_repr() == "",
    "float": lambda env: env.double().float() is env and env.scale.dtype == torch.float32,
    "forward": lambda env: "next" in env.forward(env.rand_action(env.reset())),
    "get_buffer": lambda env: env.get_buffer("scale") is env.scale,
    "get_extra_state": lambda env: env.get_extra_state() == {"note": "as made"},
    "get_parameter": lambda env: env.get_parameter("layer.bias") is env.layer.bias,
    "get_submodule": lambda env: env.get_submodule("layer") is env.layer,
    "half": lambda env: env.half() is env and env.scale.dtype == torch.float16,
    "modules": lambda env: list(env.modules()) == [env, env.layer],
    "named_buffers": lambda env: [name for name, _ in env.named_buffers()] == ["scale"],
    "named_children": lambda env: [name for name, _ in env.named_children()] == ["layer"],
    "named_modules": lambda env: [name for name, _ in env.named_modules()] == ["", "layer"],
    "named_parameters": lambda env: [name for name, _ in env.named_parameters()] == ["layer.weight", "layer.bias"],
    "parameters": lambda env: len(list(env.parameters())) == 2,
    "register_buffer": lambda env: env.register_buffer("b", torch.ones(2)) is None and "b" in env.state_dict(),
    "register_module": lambda env: env.register_module("m", nn.Tanh()) is None and isinstance(env.m, nn.Tanh),
    "register_parameter": lambda env: (
        env.register_parameter("p", nn.Parameter(torch.ones(2))) is None and env.p in set(env.parameters())
    ),
    "requires_grad_": lambda env: env.requires_grad_(False) is env and not env.layer.weight.requires_grad,
    "set_extra_state": lambda env: env.set_extra_state({"note": "set"}) is None and env.note == "set",
    "set_submodule": lambda env: (
        env.set_submodule("layer", nn.Identity()) is None and isinstance(env.layer, nn.Identity)
    ),
    "share_memory": lambda env: env.share_memory() is env and env.layer.weight.is_shared() and env.scale.is_shared(),
    "to": lambda env: env.to(torch.float64) is env and env.scale.dtype == torch.float64 and env.device is None,
    "to_empty": lambda env: (
        env.to_empty(device="cpu") is env
        and env.layer.weight.shape == (1, 1)
        and env.apply(lambda m: nn.init.zeros_(m.weight) + nn.init.zeros_(m.bias) if m is env.layer else None) is env
        and not env.scale.zero_().any()  # what an empty tensor holds is anything, the end of an episode too
    ),
    "train": lambda env: env.eval().train() is env and env.layer.training,
    "type": lambda env: env.type(torch.float64) is env and env.layer.weight.dtype == torch.float64,
    "zero_grad": lambda env: (
        (step_of(env)["next", "reward"].sum().backward(), env.layer.bias.grad is not None)[1]
        and env.zero_grad() is None
        and env.layer.bias.grad is None
    ),
}


@pytest.mark.parametrize("method", METHODS)
def test_the_methods_of_a_module(method):
    env = Bare()
    assert METHODS[method](env)
    if method not in ("bfloat16", "double", "half", "type", "to"):  # the data of the env stays float32
        assert env.rollout(3).batch_size == (3,)
    else:
        assert env.float().rollout(3).batch_size == (3,)


@EVERY
@pytest.mark.parametrize("method", ["ipu", "xpu", "mtia"])
def test_moves_to_devices_that_are_not_here(kind, method):
    env = make(kind)
    assert list(env.parameters()) == [] and getattr(env, method)() is env  # there is nothing to move
    assert env.rollout(2).batch_size == (*env.batch_size, 2)


@pytest.fixture(autouse=True, scope="module")
def checked_distributions():
    """Compiling anything makes torch leave out the checks of all distributions, from then on."""
    before = torch.distributions.Distribution._validate_args
    yield
    torch.distributions.Distribution.set_default_validate_args(before)


@pytest.mark.deep
def test_a_compiled_env_takes_the_same_steps():
    plain, compiled = PendulumEnv(seed=0), PendulumEnv(seed=0)
    assert compiled.compile(backend="eager", dynamic=False) is None
    td = plain.reset().set("action", torch.ones(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about what it cannot trace
        found = compiled(td.clone())
    assert bool((plain(td) == found).all())


STATE = ["_extra_state", "layer.bias", "layer.weight", "scale"]
HOOKS = {  # what is noted of the arguments of a hook, and what it must be
    "register_forward_pre_hook": (lambda module, args: "next" in args[0], False),
    "register_forward_hook": (lambda module, args, out: "next" in out, True),
    "register_state_dict_pre_hook": (lambda module, prefix, keep_vars: prefix, ""),
    "register_state_dict_post_hook": (lambda module, state, prefix, metadata: sorted(state), STATE),
    "register_load_state_dict_pre_hook": (lambda module, state, *rest: sorted(state), STATE),
    "register_load_state_dict_post_hook": (lambda module, incompatible: incompatible.missing_keys, []),
}


@pytest.mark.parametrize("name", HOOKS)
def test_hooks_of_calls_and_of_the_state(name):
    env, seen = Bare(), []
    note, expected = HOOKS[name]
    handle = getattr(env, name)(lambda *args: seen.append(note(*args)))
    for _ in range(2):
        if "forward" in name:
            step_of(env)
        else:
            env.load_state_dict(env.state_dict())
        assert seen == [expected]
        if handle is None:  # torch does not take every hook off again
            break
        handle.remove()


BACKWARD = ["register_full_backward_hook", "register_full_backward_pre_hook", "register_backward_hook"]


@pytest.mark.parametrize("name", BACKWARD)
def test_hooks_of_gradients_are_those_of_torch(name):
    seen = []
    env = Bare()
    getattr(env.layer, name)(lambda module, *grads: seen.append("layer"))
    assert hasattr(getattr(env, name)(lambda module, *grads: seen.append("env")), "remove")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own: a TensorDict is no tensor to hook
        env.step(env.rand_action(env.reset()))["next", "reward"].sum().backward()
    assert seen == ["layer"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "transformed"])  # its state is its transform's
def test_the_state_of_an_env_is_loaded_into_another(kind):
    one, other = make(kind), make(kind)
    for env in (one, other):
        env.register_buffer("memory", torch.zeros(2))
    one.memory.fill_(7)
    assert list(one.state_dict()) == ["memory"]
    assert str(other.load_state_dict(one.state_dict())) == "<All keys matched successfully>"
    assert other.memory.tolist() == [7, 7]
    assert bool((one.rollout(3) == other.rollout(3)).all())


def test_the_state_of_modules_and_what_the_env_adds():
    one, other = Bare(), Bare()
    one.note = "changed"
    other.load_state_dict(one.state_dict())
    assert other.note == "changed" and torch.equal(other.layer.weight, one.layer.weight)


def test_the_state_of_a_transformed_env_is_that_of_its_transform():
    one, other = make("transformed"), make("transformed")
    for env in (one, other):
        env.transform.register_buffer("memory", torch.zeros(2))
    one.transform.memory.fill_(7)
    assert one.state_dict().keys() == one.transform.state_dict().keys() == {"memory"}
    other.load_state_dict(one.state_dict())
    assert other.transform.memory.tolist() == [7, 7]


@EVERY
def test_moving_an_env(kind):
    env = make(kind)
    assert env.to("cpu") is env and env.device == torch.device("cpu")
    assert env.specs.device == torch.device("cpu")
    data = env.rollout(2)
    assert data.device == torch.device("cpu") and data["next"].device == torch.device("cpu")


@EVERY
def test_closing_an_env(kind):
    env = make(kind)
    td = env.reset()
    assert not env.is_closed
    env.close()
    env.close()  # harmless
    assert env.is_closed
    with pytest.raises(RuntimeError, match=r"^step was called on a closed .*Fix: td = env.reset\(\)"):
        env.rand_step(td)
    with pytest.raises(RuntimeError, match=r"^close\(raise_if_closed=True\) was called on a .* that is closed already"):
        env.close(raise_if_closed=True)
    env.close(raise_if_closed=False)
    assert env.rollout(2).shape[-1] == 2 and not env.is_closed  # a reset starts it again
    env.close(raise_if_closed=True)
    assert env.is_closed


def test_a_closed_env_still_tells_its_specs():
    env = GymEnv("CartPole-v1")
    env.close()
    assert env.action_keys == ["action"] and env.observation_spec["observation"].shape == (4,)
