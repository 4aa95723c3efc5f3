"""Greedy choice of discrete actions by their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictModuleBase, dispatch
from torch import nn

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.binary import Binary
from rlnb.data.specs.categorical import Categorical, OneHot
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.multi import MultiOneHot
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs.unwrapped import Entries, Function
from rlnb.modules.tensordict_module.output_specs import as_output_spec, check_safe, project_outputs
from rlnb.modules.tensordict_module.sequence import SafeSequential

#: The action spaces, by the class of their specs.
SPACES: dict[type[TensorSpec], str] = {
    OneHot: "one_hot",
    MultiOneHot: "mult_one_hot",
    Categorical: "categorical",
    Binary: "binary",
}
StrictShape = bool | Literal["auto"] | None


class QValueModule(TensorDictModuleBase):
    """Chooses the action of the greatest value, the first one among equals.

    Args:
        action_space: ``"one-hot"``, ``"mult-one-hot"`` or ``"categorical"``. Not needed with a spec. A spec is taken
            for ``spec``.
        action_value_key: entry with the values of all actions, ``[*batch, n]``. Default: "action_value".
        action_mask_key: entry with the mask of the legal actions, booleans ``[*batch, n]``. Values of other actions
            are replaced by the lowest number of their dtype. None: no mask.
        out_keys: where the action, the values and the value of the action ``[*batch, 1]`` are written. Default:
            ``["action", action_value_key, "chosen_action_value"]``.
        var_nums: numbers of choices, for "mult-one-hot". Default: those of the spec.
        spec: spec of the action, or a :class:`~rlnb.data.Composite` with an entry for it.
        safe: whether to project the action onto its spec, which gives it its dtype too.
        strict_shape: whether an action of another shape than its spec's is an error. ``"auto"`` reshapes it.

    Raises:
        ValueError: If there is neither a space nor a spec, they do not match, or the number of values is not the
            number of actions.
        KeyError: If the values or the mask are missing.

    Example:
        >>> module = QValueModule("categorical")
        >>> action, values, value = module(torch.tensor([[0.1, 0.9, 0.5]]))
        >>> action, value
        (tensor([1]), tensor([[0.9000]]))
    """

    def __init__(
        self,
        action_space: str | TensorSpec | None = None,
        action_value_key: NestedKey | None = None,
        action_mask_key: NestedKey | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        var_nums: int | Sequence[int] | None = None,
        spec: TensorSpec | None = None,
        safe: bool = False,
        strict_shape: StrictShape = True,
    ) -> None:
        value_key = "action_value" if action_value_key is None else action_value_key
        if out_keys is None:
            out_keys = ["action", value_key, "chosen_action_value"]
        keys = [as_key(as_tuple(key)) for key in out_keys]
        if len(keys) != 3 or as_tuple(keys[1]) != as_tuple(value_key):
            raise ValueError(
                "QValueModule writes the action, the values and the value of the action, so its out_keys are three and "
                f"the second one is {value_key!r}, got {keys}. Fix: out_keys=['action', {value_key!r}, "
                "'chosen_action_value']."
            )
        super().__init__()
        self.in_keys = [value_key] if action_mask_key is None else [value_key, action_mask_key]  # type: ignore[list-item]
        self.out_keys = keys  # type: ignore[assignment]  # keys of any depth
        self.action_value_key, self.action_mask_key = self.in_keys[0], action_mask_key
        self.strict_shape = True if strict_shape is None else strict_shape
        if isinstance(action_space, TensorSpec):
            action_space, spec = None, action_space if spec is None else spec
        leaf = _action_leaf(spec, keys[0])
        self.action_space = _as_space(action_space, leaf)
        self.var_nums = _as_counts(self.action_space, var_nums, leaf)
        self.register_spec(safe, spec)

    def register_spec(self, safe: bool, spec: TensorSpec | None) -> None:
        """Set the spec of the action, and whether to project onto it.

        Args:
            safe: whether to project.
            spec: the spec, as for the constructor.

        Raises:
            ValueError: If ``safe`` is set without a spec, or the spec does not match the outputs.
        """
        if spec is not None and not isinstance(spec, Composite):
            spec = Composite({self.out_keys[0]: spec})
        made = as_output_spec(self, spec, self.out_keys)
        check_safe(self, safe, made)
        self._spec, self.safe = made, safe

    @property
    def spec(self) -> Composite:
        """Specs of the outputs; None for outputs without a known spec."""
        return self._spec

    @spec.setter
    def spec(self, spec: TensorSpec | None) -> None:
        self.register_spec(self.safe, spec)

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Choose actions.

        Args:
            tensordict: data with the values, and the mask if there is one. It is modified. Tensors by position or
                keyword give a tuple of tensors.

        Returns:
            ``tensordict`` with the action, the values and the value of the action.
        """
        tensordict.update(dict(zip(self.out_keys, self._outputs(tensordict), strict=True)))
        if self.safe:
            project_outputs(tensordict, self._spec)
        return tensordict

    def _unwrap(self, batch_size: torch.Size | None) -> Function | None:
        if self.safe:
            return None
        leaf, value_key, mask_key = self._spec[self.out_keys[0]], self.action_value_key, self.action_mask_key
        numbers = isinstance(leaf, Categorical) and not leaf.shape and mask_key is None
        size = leaf.n if numbers else 0
        action_key, _, chosen_key = self.out_keys  # the second one is that of the values

        def choose(entries: Entries) -> None:
            values = entries.get(value_key)
            if size and values is not None and values.ndim and values.shape[-1] == size:
                # What _outputs() does for the number of an action, without looking at everything else.
                entries[chosen_key], entries[action_key] = _greedy(values)
            else:
                entries.update(zip(self.out_keys, self._outputs(entries), strict=True))

        return choose

    def _outputs(self, data: TensorDictBase | Entries) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the actions, the values, and the values of the actions."""
        values = self._read(data, self.action_value_key, "A network before this module should write it")
        if self.action_mask_key is not None:
            mask = self._read(data, self.action_mask_key, "An env with masks writes it")
            values = values.masked_fill(~mask, torch.finfo(values.dtype).min)
        leaf = self._spec[self.out_keys[0]]
        self._check_number(values, leaf)
        chosen, action = self._choose(values)
        if leaf is not None and self.strict_shape and not isinstance(leaf, (OneHot, MultiOneHot)):
            action = self._shaped(action, values, leaf)
        return action, values, chosen

    def _choose(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the values of the greedy actions, and the actions."""
        if self.action_space == "mult_one_hot":
            parts = [_greedy(part) for part in values.split(self.var_nums, -1)]
            hot = [nn.functional.one_hot(index, n) for (_, index), n in zip(parts, self.var_nums, strict=True)]
            return torch.stack([best for best, _ in parts]).sum(0), torch.cat(hot, -1)
        best, index = _greedy(values)
        if self.action_space == "categorical":
            return best, index
        return best, nn.functional.one_hot(index, values.shape[-1])

    def _check_number(self, values: torch.Tensor, leaf: TensorSpec | None) -> None:
        expected = sum(self.var_nums) if self.var_nums else None
        if leaf is not None:
            expected = leaf.n if isinstance(leaf, (OneHot, Categorical)) else leaf.shape[-1]
        if expected is not None and (not values.ndim or values.shape[-1] != expected):
            raise ValueError(
                f"There are {expected} actions and {values.shape[-1] if values.ndim else 'no'} values: "
                f"{self.action_value_key!r} has shape {list(values.shape)}. Fix: a network with {expected} outputs, "
                "one for the value of each action."
            )

    def _shaped(self, action: torch.Tensor, values: torch.Tensor, leaf: TensorSpec) -> torch.Tensor:
        shape = leaf.shape
        if action.shape[action.ndim - len(shape) :] == shape and action.ndim >= len(shape):
            return action
        if self.strict_shape == "auto":
            return action.reshape(*values.shape[:-1], *shape)
        raise ValueError(
            f"The spec of {self.out_keys[0]!r} has shape {list(shape)}, and the chosen actions have shape "
            f"{list(action.shape)}. Fix: strict_shape='auto', which reshapes them, or a spec of shape ()."
        )

    def _read(self, data: TensorDictBase | Entries, key: NestedKey, who: str) -> torch.Tensor:
        value: torch.Tensor | None = data.get(key, None)
        if value is None:
            keys = leaf_keys(data) if isinstance(data, TensorDictBase) else list(data)
            has = ", ".join(map(repr, keys)) or "nothing"
            raise KeyError(f"QValueModule reads {key!r}, and the data has: {has}. {who}: see its out_keys.")
        return value


class QValueActor(SafeSequential):
    """A policy that chooses the action of the greatest value: a network and a :class:`QValueModule`.

    Args:
        module: a torch module from the inputs to the values of all actions, or a module over TensorDicts that writes
            them.
        in_keys: inputs of a torch module. Default: ``["observation"]``.
        spec: spec of the action, or a :class:`~rlnb.data.Composite` with an entry for it.
        safe: as for :class:`QValueModule`.
        action_space: as for :class:`QValueModule`.
        action_value_key: where the values are written. Default: "action_value".
        action_key: where the action is written. Default: "action".
        chosen_action_value_key: where the value of the action is written. Default: "chosen_action_value".
        action_mask_key: as for :class:`QValueModule`.
        strict_shape: as for :class:`QValueModule`.

    Raises:
        KeyError: If ``module`` does not write the values.
        ValueError: As for :class:`QValueModule`.

    Example:
        >>> from rlnb.data import OneHot
        >>> from tensordict import TensorDict
        >>> policy = QValueActor(torch.nn.Linear(4, 2), spec=OneHot(2))
        >>> data = policy(TensorDict({"observation": torch.randn(3, 4)}, [3]))
        >>> data["action"].shape, data["chosen_action_value"].shape
        (torch.Size([3, 2]), torch.Size([3, 1]))
    """

    _unwraps_as_sequence = True

    def __init__(
        self,
        module: Any,
        *,
        in_keys: Sequence[NestedKey] | None = None,
        spec: TensorSpec | None = None,
        safe: bool = False,
        action_space: str | TensorSpec | None = None,
        action_value_key: NestedKey | None = None,
        action_key: NestedKey | None = None,
        chosen_action_value_key: NestedKey | None = None,
        action_mask_key: NestedKey | None = None,
        strict_shape: StrictShape = True,
    ) -> None:
        value_key = "action_value" if action_value_key is None else action_value_key
        if not isinstance(module, TensorDictModuleBase):
            inputs = ["observation"] if in_keys is None else list(in_keys)
            module = TensorDictModule(module, in_keys=inputs, out_keys=[value_key])  # type: ignore[arg-type]
        elif as_tuple(value_key) not in map(as_tuple, module.out_keys):
            raise KeyError(
                f"QValueActor reads the values {value_key!r}, and its module writes {list(module.out_keys)}. "
                f"Fix: action_value_key={module.out_keys[0]!r}."
            )
        choose = QValueModule(
            action_space=action_space,
            action_value_key=value_key,
            action_mask_key=action_mask_key,
            out_keys=[
                "action" if action_key is None else action_key,
                value_key,
                "chosen_action_value" if chosen_action_value_key is None else chosen_action_value_key,
            ],
            spec=spec,
            safe=safe,
            strict_shape=strict_shape,
        )
        super().__init__(module, choose)

    @property
    def action_space(self) -> str:
        """The action space, such as "one_hot"."""
        return self._choice.action_space

    @property
    def action_value_key(self) -> NestedKey:
        """The entry with the values of all actions."""
        return self._choice.action_value_key

    @property
    def _choice(self) -> QValueModule:
        module = self[-1]
        assert isinstance(module, QValueModule)
        return module


def _greedy(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the greatest value ``[*batch, 1]`` and its index ``[*batch]``."""
    index = values.argmax(-1)  # max() would return any one of equals
    return values.gather(-1, index.unsqueeze(-1)), index


def _action_leaf(spec: TensorSpec | None, key: NestedKey) -> TensorSpec | None:
    """Return the spec of the action.

    Raises:
        KeyError: If a composite has no entry for it.
    """
    if not isinstance(spec, Composite):
        return spec
    if key not in spec.keys(True, True):
        raise KeyError(
            f"The spec of QValueModule needs an entry for the action {key!r}, it has {list(spec.keys(True, True))}. "
            f"Fix: spec=Composite({{{key!r}: action_spec}})."
        )
    return spec[key]


def _as_space(space: str | None, leaf: TensorSpec | None) -> str:
    """Return the name of the action space.

    Raises:
        ValueError: If it is unknown, missing, or not that of the spec.
    """
    legal = ", ".join(map(repr, SPACES.values()))
    if space is None and leaf is None:
        raise ValueError(
            f"QValueModule needs a spec or an action_space, got neither. The spaces are: {legal}. "
            "Fix: spec=env.action_spec."
        )
    name = None if space is None else space.replace("-", "_").replace("multi_", "mult_")
    if name is not None and name not in SPACES.values():
        raise ValueError(f"There is no action space {space!r}. They are: {legal}.")
    if leaf is None:
        assert name is not None
        return name
    own = next((known for kind, known in SPACES.items() if isinstance(leaf, kind)), None)
    if own is None:
        raise ValueError(
            f"QValueModule chooses among finitely many actions, and the spec of the action is a {type(leaf).__name__}. "
            "Fix: a continuous action is computed by Actor(network, spec=spec), and valued by "
            "ValueOperator(critic, in_keys=['observation', 'action'])."
        )
    if name is not None and name != own:
        raise ValueError(
            f"The action_space {space!r} is not that of the spec, a {type(leaf).__name__}: {own!r}. "
            "Fix: leave action_space out."
        )
    return own


def _as_counts(space: str, var_nums: int | Sequence[int] | None, leaf: TensorSpec | None) -> list[int]:
    """Return the numbers of choices of several one-hot vectors, empty for other spaces.

    Raises:
        ValueError: If they are not known.
        NotImplementedError: If the space is binary.
    """
    if space == "binary":
        raise NotImplementedError(
            "Binary actions are not chosen by values: each of their 2 ** n combinations would need a value. "
            "Fix: a Categorical action of that many choices."
        )
    if space != "mult_one_hot":
        return []
    if var_nums is not None:
        return [var_nums] if isinstance(var_nums, int) else list(var_nums)
    if isinstance(leaf, MultiOneHot):
        return leaf.nvec.tolist()
    raise ValueError("The action space 'mult_one_hot' needs the numbers of choices. Fix: var_nums=[2, 3].")
