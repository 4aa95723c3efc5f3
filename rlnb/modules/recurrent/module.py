"""GRU and LSTM modules that read and write entries of a TensorDict."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase, dispatch
from torch import nn

from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs.recurrent_mode import recurrent_mode
from rlnb.envs.transforms.primer import TensorDictPrimer
from rlnb.modules.recurrent.cells import GRU, LSTM
from rlnb.modules.recurrent.sequences import run_sequences

_IS_INIT = "is_init"


class RecurrentModule(TensorDictModuleBase):
    """Base class of :class:`GRUModule` and :class:`LSTMModule`, which describe the arguments."""

    DEFAULT_IN_KEYS: ClassVar[list[NestedKey]]
    DEFAULT_OUT_KEYS: ClassVar[list[NestedKey]]
    #: Name of the network as a submodule.
    _name: ClassVar[str]
    #: Its class in torch, and the one written in Python.
    _torch_class: ClassVar[Any]
    _python_class: ClassVar[Any]

    def __init__(
        self,
        net: nn.RNNBase,
        in_key: NestedKey | None,
        in_keys: Sequence[NestedKey] | None,
        out_key: NestedKey | None,
        out_keys: Sequence[NestedKey] | None,
        default_recurrent_mode: bool | None,
    ) -> None:
        if not net.batch_first:
            raise ValueError(f"{type(self).__name__} takes data of shape [batch, time, ...]. Fix: batch_first=True.")
        if net.bidirectional:
            raise ValueError(
                f"{type(self).__name__} must also run step by step, without later steps, so it cannot be "
                "bidirectional. Fix: leave bidirectional out."
            )
        given = self._keys("in", in_key, in_keys, self.DEFAULT_IN_KEYS)
        results = self._keys("out", out_key, out_keys, self.DEFAULT_OUT_KEYS)
        n = len(self.DEFAULT_IN_KEYS) + 1
        if len(given) == n:
            given.append(_IS_INIT)
        if len(given) != n + 1 or len(results) != n:
            raise ValueError(
                f"{type(self).__name__} reads {n} entries (features, {', '.join(map(str, self.DEFAULT_IN_KEYS))}), "
                f"optionally 'is_init' under another key, and writes {n}; got in_keys={given} and out_keys={results}."
            )
        super().__init__()
        self.add_module(self._name, net)
        self.in_keys, self.out_keys = given, results  # type: ignore[assignment]  # keys of any depth
        self.default_recurrent_mode = default_recurrent_mode

    def _keys(
        self, way: str, key: NestedKey | None, keys: Sequence[NestedKey] | None, states: list[NestedKey]
    ) -> list[NestedKey]:
        if (key is None) == (keys is None):
            got = "none" if key is None else "both"
            raise ValueError(
                f"{type(self).__name__} needs one of {way}_key and {way}_keys, got {got}. Fix: "
                f"{way}_key='{'observation' if way == 'in' else 'features'}'."
            )
        found = [key, *states] if keys is None else list(keys)
        return [as_key(as_tuple(k)) for k in found]  # type: ignore[arg-type]  # one of the two is given

    @classmethod
    def _make_net(
        cls, net: nn.RNNBase | None, python_based: bool, sizes: tuple[Any, Any], arguments: dict[str, Any]
    ) -> nn.RNNBase:
        """Return the given network, or make one."""
        if net is not None:
            if any(size is not None for size in sizes):
                raise ValueError(f"{cls.__name__} takes either {cls._name}= or sizes, got both. Fix: give one of them.")
            if not isinstance(net, cls._torch_class):
                raise TypeError(f"{cls._name}= must be a {cls._torch_class.__name__}, got a {type(net).__name__}.")
            return net
        for name, size in zip(("input_size", "hidden_size"), sizes, strict=True):
            if isinstance(size, bool) or not isinstance(size, int):
                raise TypeError(f"{name} must be an integer, got {size!r}. Fix: {cls.__name__}({name}=64, ...).")
        kind = cls._python_class if python_based else cls._torch_class
        return kind(*sizes, **arguments)

    @property
    def net(self) -> nn.RNNBase:
        """The network."""
        return self._modules[self._name]  # type: ignore[return-value]  # __init__ put a network there

    # Python or not ------------------------------------------------------------------------------------------------

    def make_python_based(self) -> Self:
        """Replace the network by one written in Python, with the same parameters; return the module."""
        return self._replace(self._python_class)

    def make_cudnn_based(self) -> Self:
        """Replace the network by torch's, with the same parameters; return the module."""
        return self._replace(self._torch_class)

    def _replace(self, kind: Any) -> Self:
        old = self.net
        if type(old) is not kind:
            new = kind(
                old.input_size,
                old.hidden_size,
                num_layers=old.num_layers,
                bias=old.bias,
                batch_first=True,
                dropout=old.dropout,
                **({"proj_size": old.proj_size} if old.proj_size else {}),
            )
            for name, parameter in old.named_parameters():
                setattr(new, name, parameter)
            self.add_module(self._name, new.train(old.training))
        return self

    # Mode ---------------------------------------------------------------------------------------------------------

    @property
    def recurrent_mode(self) -> bool:
        """Whether the last dimension of the data is time."""
        mode = recurrent_mode()
        return bool(self.default_recurrent_mode) if mode is None else mode

    def set_recurrent_mode(self, mode: bool = True) -> Self:
        """Return a module with the same parameters and another default mode; this one does not change."""
        new = copy.copy(self)
        # A shallow copy of a torch module shares its dictionaries.
        new.__dict__.update({k: dict(v) for k, v in self.__dict__.items() if k in ("_modules", "_parameters")})
        new.default_recurrent_mode = bool(mode)
        return new

    # States -------------------------------------------------------------------------------------------------------

    def _state_shapes(self) -> list[tuple[int, int]]:
        net = self.net
        h = (net.num_layers, net.proj_size or net.hidden_size)
        return [h, (net.num_layers, net.hidden_size)][: len(self.DEFAULT_IN_KEYS)]

    def make_tensordict_primer(self) -> TensorDictPrimer:
        """Make the :class:`~rlnb.envs.TensorDictPrimer` that adds the initial states, zeros, to the data of an env."""
        dtype = next(self.net.parameters()).dtype
        keys = self.in_keys[1:-1]
        specs = {
            key: Unbounded(shape=shape, dtype=dtype) for key, shape in zip(keys, self._state_shapes(), strict=True)
        }
        return TensorDictPrimer(specs, expand_specs=True)

    # Data ---------------------------------------------------------------------------------------------------------

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:  # type: ignore[override]  # the decorator's type
        """Compute the output and the next states.

        Where "is_init" is True the states are reset to zeros. In recurrent mode only the states of the first step are
        read; next states are written at the last step before each "is_init" and at the end, and are zeros elsewhere.

        Args:
            tensordict: single steps ``[*batch]``, or sequences ``[*batch, time]`` in recurrent mode. It is modified.
                Missing states are zeros.

        Returns:
            ``tensordict``.

        Raises:
            KeyError: If the features or "is_init" are missing.
            ValueError: If the features have another size, or the data has no time dimension in recurrent mode.
        """
        sequences, batch = self.recurrent_mode, tensordict.batch_size
        if sequences and not batch:
            raise ValueError(
                f"{type(self).__name__} is in recurrent mode, where the last dimension of the data is time, and the "
                "data has batch size (). Fix: with set_recurrent_mode(False), or leave the mode out for single steps."
            )
        value, is_init = self._read(tensordict, self.in_keys[0]), self._read(tensordict, self.in_keys[-1])
        if value.shape != (*batch, self.net.input_size):
            raise ValueError(
                f"{type(self).__name__} reads {self.in_keys[0]!r} of shape {(*batch, self.net.input_size)}, got "
                f"{tuple(value.shape)}. Fix: {type(self).__name__}(input_size={value.shape[-1] if value.ndim else 1}), "
                "or flatten it first."
            )
        time = batch[-1] if sequences else 1
        rows = batch[:-1].numel() if sequences else batch.numel()
        init = is_init.reshape(rows, time, -1).any(-1)
        states = [
            self._state(tensordict, key, shape, value).reshape(rows, time, *shape)
            for key, shape in zip(self.in_keys[1:-1], self._state_shapes(), strict=True)
        ]
        out, after = run_sequences(self.net, value.reshape(rows, time, -1), init, states)
        tensordict.set(self.out_keys[0], out.reshape(*batch, -1))
        for key, state in zip(self.out_keys[1:], after, strict=True):
            tensordict.set(key, state.reshape(*batch, *state.shape[2:]))
        return tensordict

    def _read(self, data: TensorDictBase, key: NestedKey) -> torch.Tensor:
        value = data.get(key, None)
        if value is None:
            fix = ""
            if key == self.in_keys[-1]:
                fix = " It marks where the state is reset. Fix: env.append_transform(InitTracker())."
            raise KeyError(
                f"{type(self).__name__} reads {key!r}, and the data has: {', '.join(map(repr, leaf_keys(data)))}.{fix}"
            )
        return value

    def _state(self, data: TensorDictBase, key: NestedKey, shape: tuple[int, int], value: torch.Tensor) -> torch.Tensor:
        state = data.get(key, None)
        if state is None:
            return value.new_zeros((*data.batch_size, *shape), dtype=next(self.net.parameters()).dtype)
        if state.shape != (*data.batch_size, *shape):
            raise ValueError(
                f"The state {key!r} must have shape {(*data.batch_size, *shape)}, [*batch, num_layers, size], got "
                f"{tuple(state.shape)}. Fix: env.append_transform(module.make_tensordict_primer())."
            )
        return state


class LSTMModule(RecurrentModule):
    """An LSTM that reads and writes entries of a TensorDict.

    The next state is written under "next", so the next step finds it at the root. The state is reset to zeros where
    "is_init" is True, an entry that :class:`~rlnb.envs.InitTracker` writes. By default the data is a batch of single
    steps, ``[*batch]``; in recurrent mode (see :class:`~rlnb.modules.set_recurrent_mode`) it is a batch of sequences,
    ``[*batch, time]``, with the same results. :meth:`make_tensordict_primer` makes the transform that adds the initial
    states to the data of an env.

    Args:
        input_size: number of features.
        hidden_size: size of the state.
        num_layers: number of stacked LSTMs.
        bias: whether to use biases.
        batch_first: must be True.
        dropout: dropout probability of the outputs of all layers but the last, in training.
        proj_size: size of the output if it is projected. 0: no projection.
        bidirectional: must be False.
        python_based: whether to use :class:`rlnb.modules.LSTM` instead of ``torch.nn.LSTM``.
        in_key: key of the features; the keys of the states are then "recurrent_state_h" and "recurrent_state_c".
        in_keys: keys of the features and of the states, and optionally the key of "is_init".
        out_key: key of the output; the keys of the next states are then those of the states under "next".
        out_keys: keys of the output and of the next states.
        device: device of the parameters.
        lstm: a ``torch.nn.LSTM`` to use, instead of sizes.
        default_recurrent_mode: the mode outside of :class:`~rlnb.modules.set_recurrent_mode`. None: False.

    Raises:
        TypeError: If a size is not an integer, or ``lstm`` is not a ``torch.nn.LSTM``.
        ValueError: If there are too few or too many keys, or the network is not batch-first or is bidirectional.

    Example:
        >>> import torch
        >>> from tensordict import TensorDict
        >>> from rlnb.modules import set_recurrent_mode
        >>> net = LSTMModule(input_size=3, hidden_size=4, in_key="observation", out_key="features")
        >>> data = TensorDict({"observation": torch.ones(2, 10, 3), "is_init": torch.zeros(2, 10, 1).bool()}, [2, 10])
        >>> with set_recurrent_mode(True):
        ...     net(data)["features"].shape
        torch.Size([2, 10, 4])
    """

    DEFAULT_IN_KEYS: ClassVar[list[NestedKey]] = ["recurrent_state_h", "recurrent_state_c"]
    DEFAULT_OUT_KEYS: ClassVar[list[NestedKey]] = [("next", "recurrent_state_h"), ("next", "recurrent_state_c")]
    _name = "lstm"
    _torch_class = nn.LSTM
    _python_class = LSTM

    def __init__(
        self,
        input_size: int | None = None,
        hidden_size: int | None = None,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = True,
        dropout: float = 0.0,
        proj_size: int = 0,
        bidirectional: bool = False,
        python_based: bool = False,
        *,
        in_key: NestedKey | None = None,
        in_keys: Sequence[NestedKey] | None = None,
        out_key: NestedKey | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        device: Any = None,
        lstm: nn.LSTM | None = None,
        default_recurrent_mode: bool | None = None,
    ) -> None:
        arguments = {"num_layers": num_layers, "bias": bias, "dropout": dropout, "device": device}
        arguments |= {"bidirectional": bidirectional, "proj_size": proj_size, "batch_first": batch_first}
        net = self._make_net(lstm, python_based, (input_size, hidden_size), arguments)
        super().__init__(net, in_key, in_keys, out_key, out_keys, default_recurrent_mode)


class GRUModule(RecurrentModule):
    """A GRU that reads and writes entries of a TensorDict; like :class:`LSTMModule`, but with a single state.

    The other arguments, and the errors, are those of :class:`LSTMModule`.

    Args:
        in_key: key of the features; the key of the state is then "recurrent_state".
        in_keys: keys of the features and of the state, and optionally the key of "is_init".
        out_key: key of the output; the key of the next state is then ("next", "recurrent_state").
        out_keys: keys of the output and of the next state.
        gru: a ``torch.nn.GRU`` to use, instead of sizes.

    Example:
        >>> from rlnb.envs import CartPoleEnv, InitTracker, TransformedEnv
        >>> net = GRUModule(input_size=4, hidden_size=8, in_key="observation", out_key="features")
        >>> env = TransformedEnv(CartPoleEnv(), InitTracker()).append_transform(net.make_tensordict_primer())
        >>> net(env.reset())["next", "recurrent_state"].shape
        torch.Size([1, 8])
    """

    DEFAULT_IN_KEYS: ClassVar[list[NestedKey]] = ["recurrent_state"]
    DEFAULT_OUT_KEYS: ClassVar[list[NestedKey]] = [("next", "recurrent_state")]
    _name = "gru"
    _torch_class = nn.GRU
    _python_class = GRU

    def __init__(
        self,
        input_size: int | None = None,
        hidden_size: int | None = None,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = True,
        dropout: float = 0.0,
        bidirectional: bool = False,
        python_based: bool = False,
        *,
        in_key: NestedKey | None = None,
        in_keys: Sequence[NestedKey] | None = None,
        out_key: NestedKey | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        device: Any = None,
        gru: nn.GRU | None = None,
        default_recurrent_mode: bool | None = None,
    ) -> None:
        arguments = {"num_layers": num_layers, "bias": bias, "dropout": dropout, "device": device}
        arguments |= {"bidirectional": bidirectional, "batch_first": batch_first}
        net = self._make_net(gru, python_based, (input_size, hidden_size), arguments)
        super().__init__(net, in_key, in_keys, out_key, out_keys, default_recurrent_mode)
