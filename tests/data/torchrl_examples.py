"""Small programs on specs and TED, with their results in TorchRL 0.14.1."""

EXAMPLES = [
    ("OneHot(3).encode(1).tolist()", [False, True, False]),
    ("OneHot(3).project(torch.tensor([0.0, 1.0, 0.0])).tolist()", [False, True, False]),
    ("bool(OneHot(3).is_in(torch.tensor([0.0, 1.0, 0.0])))", False),
    ("int(OneHot(3).to_numpy(OneHot(3).encode(2)))", 2),
    ("bool(Categorical(3).is_in(torch.tensor(1, dtype=torch.int32)))", False),
    ("Categorical(5, shape=(3,)).cardinality()", 5),
    ("Categorical(3, shape=(2,)).enumerate().tolist()", [[0, 0], [1, 1], [2, 2]]),
    ("list(OneHot(5, shape=(3, 5)).enumerate().shape)", [5, 3, 5]),
    ("int(MultiCategorical([2, 3], shape=(4, 2)).cardinality())", 6),
    ("list(MultiOneHot([2, 3], shape=(4, 5)).enumerate().shape)", [6, 4, 5]),
    ("Composite(a=Categorical(5, shape=(3,)), b=Categorical(2, shape=(3,)), shape=(3,)).cardinality()", 10),
    ("Choice([Categorical(3), Categorical(4)]).cardinality()", 7),
    ("Categorical(5, mask=torch.tensor([True, True, False, False, False])).enumerate(use_mask=True).tolist()", [0, 1]),
    ("MultiCategorical([2, 3]).to_one_hot(torch.tensor([1, 2])).int().tolist()", [0, 1, 0, 0, 1]),
    ("MultiOneHot([2, 3]).encode([1, 2]).int().tolist()", [0, 1, 0, 0, 1]),
    ("Categorical(3, dtype=torch.float32).enumerate().tolist()", [0.0, 1.0, 2.0]),
    ("str(Bounded(np.zeros(2), np.ones(2)).dtype)", "torch.float32"),
    ("Bounded(-1, 1, (2,)).project(torch.tensor([-5.0, 0.5])).tolist()", [-1.0, 0.5]),
    ("list(Composite(a=Unbounded(1)).rand(None).keys())", ["a"]),
    ("list(Composite({('a',): Unbounded(1)}).keys())", ["a"]),
    ("('a',) in Composite(a=Unbounded(1)).keys()", True),
    ("list(Composite(a=Composite(b=Unbounded(1)), c=None).keys(True, True))", [["a", "b"], "c"]),
    ("list(Composite(agents=Composite(obs=Unbounded((3, 2))), shape=(3,))['agents'].shape)", [3]),
    ("torch.stack([Categorical(3), Categorical(4)]).dim", 0),
    ("Composite(a=Composite(b=Unbounded(1))).lock_()['a'].is_locked", True),
    ("list(OneHot(3).expand(4, 3).shape)", [4, 3]),
    ("list(Unbounded((2, 3)).unflatten(0, (1, 2)).shape)", [1, 2, 3]),
    (
        "bool(Composite({'done': Categorical(2, shape=(4, 1), dtype=torch.bool)}, shape=(4, 1))"
        ".is_in(TensorDict({'done': torch.zeros(4, 1, dtype=torch.bool)}, [4])))",
        True,
    ),
    (
        "(lambda c, td: [c.project(td) is td, td['a'].tolist()])"
        "(Composite(a=Bounded(0, 1, (2,))), TensorDict({'a': torch.tensor([3.0, 0.5])}))",
        [True, [1.0, 0.5]],
    ),
    (
        "(lambda s: [setattr(s.space, 'low', torch.tensor([0.0, -3.0])), s.low.tolist()])(Bounded(-1, 1, (2,)))",
        [None, [0.0, -3.0]],
    ),
    ("sorted(step_mdp(TensorDict({'x': 0, 'action': 1, 'next': {'x': 2, 'action': 3, 'reward': 4}})).keys())", ["x"]),
    (
        "sorted(step_mdp(TensorDict({'x': 0, 'n': {'action': 1}, 'next': {'x': 2, 'n': {'reward': 3}}}),"
        " action_keys=('n', 'action'), reward_keys=('n', 'reward')).keys())",
        ["x"],
    ),
]


def run(library: str, expression: str) -> object:
    """Evaluate an expression with the names of a library, and write the result as JSON would."""
    import importlib
    import json

    import numpy
    import torch
    from tensordict import TensorDict

    names = {"np": numpy, "torch": torch, "TensorDict": TensorDict}
    names |= vars(importlib.import_module(f"{library}.data.tensor_specs"))
    names["step_mdp"] = importlib.import_module(f"{library}.envs.utils").step_mdp
    return json.loads(json.dumps(eval(expression, names)))


if __name__ == "__main__":
    wrong = [(text, expected, got) for text, expected in EXAMPLES if (got := run("torchrl", text)) != expected]
    assert not wrong, wrong
    print(len(EXAMPLES), "examples")
