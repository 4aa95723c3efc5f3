"""Transform: the base of what changes the data of an env or of a buffer, forwards and backwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import dispatch

from rlnb._tensordict import shallow_copy
from rlnb.data import Composite
from rlnb.data.ted.keys import NestedKey, as_key, as_keys, as_tuple
from rlnb.envs.transforms import faults
from rlnb.envs.transforms.carried import Carried
from rlnb.envs.transforms.rows import RowRule, value_by_value
from rlnb.envs.transforms.spec_rules import SpecRules

Keys = NestedKey | Sequence[NestedKey]


class Transform(SpecRules):
    """The base of all transforms.

    A transform changes the data that comes out of an env, and the data that goes into it:

    - **forwards**, after each step and each reset: a subclass writes ``_apply_transform``, which changes one value, or
      ``_call``, which changes the data of a step or reset as a whole. What differs between the two goes into ``_step``
      and ``_reset``.
    - **backwards**, before each step: ``_inv_apply_transform`` or ``_inv_call``.
    - the **specs** likewise: ``_apply_to_spec`` and ``_inv_apply_to_spec`` for one value,
      ``transform_observation_spec`` and its like for a whole Composite.

    Called as a module it changes data forwards, such as what a replay buffer samples; :meth:`inv` changes it
    backwards, such as what a buffer is to store. There ``("next", "observation")`` is a key like any other.

    A transform that carries something from step to step keeps it in the data, by means of ``self._carried``, for the
    rows of a batch are reset one by one.

    Args:
        in_keys: the entries that are read.
        out_keys: where the results go, one for each of ``in_keys``. Default: ``in_keys``.
        in_keys_inv: for the inverse, the entries of the env below.
        out_keys_inv: for the inverse, what they are called outside, where they are read. Default: ``in_keys_inv``.

    Attributes:
        missing_tolerance: whether an entry that is not there is passed over.
        enable_inv_on_reset: whether a reset applies ``inv`` to all that it is given. Default: to the env's state only.

    Raises:
        TypeError: if a key is neither a string nor a tuple of strings.
        ValueError: if the keys do not pair up.

    Example:
        >>> from rlnb.envs import CartPoleEnv, TransformedEnv
        >>> class Double(Transform):
        ...     '''Doubles values; doubled actions are halved for the env.'''
        ...     def _apply_transform(self, value):
        ...         return value * 2
        >>> env = TransformedEnv(CartPoleEnv(), Double(in_keys=["reward"]))
        >>> env.rollout(3)["next", "reward"].flatten()
        tensor([2., 2., 2.])
    """

    missing_tolerance: bool = False
    enable_inv_on_reset: bool = False
    #: Whether ``_apply_transform`` is a function of its value alone and all there is to it, so that rollouts may call
    #: it on rows of data (see :mod:`rlnb.envs.transforms.rows`).
    _elementwise: bool = False

    def __init__(
        self,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        in_keys_inv: Keys | None = None,
        out_keys_inv: Keys | None = None,
    ) -> None:
        super().__init__()
        self.in_keys = key_list(in_keys, "in_keys")
        self.out_keys = list(self.in_keys) if out_keys is None else key_list(out_keys, "out_keys")
        self.in_keys_inv = key_list(in_keys_inv, "in_keys_inv")
        self.out_keys_inv = list(self.in_keys_inv) if out_keys_inv is None else key_list(out_keys_inv, "out_keys_inv")
        self._at_reset = self._needs_rewards = False
        self._carried = Carried()
        self._pair_up()

    def _pair_up(self) -> None:
        """Refuse keys that do not belong together one by one."""
        for first, second in (("in_keys", "out_keys"), ("in_keys_inv", "out_keys_inv")):
            n_first, n_second = len(getattr(self, first)), len(getattr(self, second))
            if n_first != n_second:
                raise ValueError(faults.unequal_keys(self, first, n_first, second, n_second))

    # Forwards -----------------------------------------------------------------------------------------------------

    def _apply_transform(self, value: Any) -> Any:
        """Change one value; its leading dimensions are any batch and time dimensions."""
        raise NotImplementedError(faults.no_forward(self))

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        """Change the data of a step or reset, in place, and return it. The default goes value by value."""
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            value = self._read(next_tensordict, in_key)
            if value is not None:
                next_tensordict.set(out_key, self._apply_transform(value))
        return next_tensordict

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        """Change the data of a step, ``next_tensordict``; ``tensordict`` is what the step started from."""
        return self._call(next_tensordict)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        """Change the data of a reset, ``tensordict_reset``; ``tensordict`` is what the reset was given.

        In ``tensordict`` "_reset" masks may say which rows are reset. The other rows of ``tensordict_reset`` mean
        nothing, and whatever is made of them is thrown away.

        The default calls ``_call``. One that cannot do without the reward, which resets do not give, is called with
        rewards of 0, which are removed again.
        """
        self.__dict__["_at_reset"] = True
        try:
            if self._needs_rewards:
                return self._call_with_rewards(tensordict_reset)
            try:
                return self._call(tensordict_reset)
            except (KeyError, TypeError, AttributeError):
                if not self._may_need_rewards(tensordict_reset):
                    raise
                result = self._call_with_rewards(tensordict_reset)
                self.__dict__["_needs_rewards"] = True
                return result
        finally:
            self.__dict__["_at_reset"] = False

    def _may_need_rewards(self, data: TensorDictBase) -> bool:
        """Whether ``_call`` is a user's own, and could miss the rewards in the data of a reset."""
        own = type(self)._call is not Transform._call and not type(self)._call.__module__.startswith("rlnb.")
        return own and any(data.get(key, None) is None for key in self._reward_specs)

    def _call_with_rewards(self, data: TensorDictBase) -> TensorDictBase:
        added = [key for key in self._reward_specs if data.get(key, None) is None]
        filled = shallow_copy(data)
        for key in added:
            filled.set(key, self._reward_specs[key].zero())
        result = checked(self, self._call(filled))
        for key in added:
            if result.get(key, None) is not None:
                result.del_(key)
        return result

    def _reset_env_preprocess(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Turn what a reset is given into what the env below is given, in a new TensorDict if anything changes.

        The default changes back what the env reads of it: its state, but no action.
        """
        if self.enable_inv_on_reset:
            return self.inv(tensordict)
        pairs = [pair for pair in zip(self.in_keys_inv, self.out_keys_inv, strict=True) if pair[0] in self._states]
        found = {in_key: tensordict.get(out_key, None) for in_key, out_key in pairs}
        found = {in_key: value for in_key, value in found.items() if value is not None}
        if not found:
            return tensordict
        tensordict = shallow_copy(tensordict)
        for in_key, value in found.items():
            tensordict.set(in_key, self._inv_apply_transform(value))
        return tensordict

    def _reset_below(
        self, given: TensorDictBase | None, reset: Callable[[TensorDictBase | None], TensorDictBase]
    ) -> TensorDictBase:
        """Reset the env below, or give what it has been reset to already."""
        return reset(given)

    def _step_input(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Turn what ``_step`` is given into what that of the transforms before this one is given."""
        return tensordict

    @property
    def _changes_input(self) -> bool:
        """Whether ``_step_input`` changes anything."""
        return type(self)._step_input is not Transform._step_input

    def _row_rule(self, output_spec: Composite) -> RowRule | None:
        """Tell what the transform does to rows of data, above an env of this spec; None if it takes TensorDicts."""
        return value_by_value(self, output_spec) if self._elementwise else None

    @property
    def _fills_resets(self) -> bool:
        """Whether ``_reset_env_preprocess`` makes something of nothing, for a reset that is given no data."""
        return False

    @property
    def _changes_resets(self) -> bool:
        """Whether ``_reset_env_preprocess`` may change anything."""
        own = type(self)._reset_env_preprocess is not Transform._reset_env_preprocess
        return own or self.enable_inv_on_reset or any(key in self._states for key in self.in_keys_inv)

    @dispatch(source="in_keys", dest="out_keys")
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Change data forwards.

        Args:
            tensordict: data of any batch size, such as a sample of a buffer; written to.

        Returns:
            The TensorDict.

        Raises:
            KeyError: if an entry of ``in_keys`` is not there.
        """
        return self._call(tensordict)

    # Backwards ----------------------------------------------------------------------------------------------------

    def _inv_apply_transform(self, value: Any) -> Any:
        """Change one value back."""
        raise NotImplementedError(faults.no_inverse(self))

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Change the input of a step back, in place, and return it. The default goes value by value."""
        for in_key, out_key in zip(self.in_keys_inv, self.out_keys_inv, strict=True):
            value = self._read(tensordict, out_key)
            if value is not None:
                tensordict.set(in_key, self._inv_apply_transform(value))
        return tensordict

    def inv(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Change data backwards: what a step is given, or what a buffer is to store.

        Args:
            tensordict: data of any batch size. It is not changed.

        Returns:
            A new TensorDict, which shares with ``tensordict`` what does not change.

        Raises:
            KeyError: if an entry of ``out_keys_inv`` is not there.
            NotImplementedError: if the transform has no inverse.
        """
        return self._inv_call(shallow_copy(tensordict)) if self.invertible else tensordict

    @property
    def invertible(self) -> bool:
        """Whether :meth:`inv` changes anything."""
        return bool(self.in_keys_inv) or type(self)._inv_call is not Transform._inv_call

    # Missing entries ----------------------------------------------------------------------------------------------

    def set_missing_tolerance(self, mode: bool = False) -> None:
        """Say whether an entry that is not there is passed over, in place of an error.

        At a reset, entries that only steps give are always passed over, such as the reward.

        Args:
            mode: True to pass it over.
        """
        self.missing_tolerance = mode

    def _read(self, data: TensorDictBase, key: NestedKey) -> Any:
        """Read an entry; None if it is not there and need not be."""
        value = data.get(key, None)
        if value is None and not self.missing_tolerance:
            # What the specs of the env name may come with the first step: its own check sees to it.
            if self._at_reset and (self._known is None or as_tuple(key) in self._known):
                return None
            raise faults.missing_key(self, key, data, self._at_reset)
        return value

    def _need(self, data: TensorDictBase, key: NestedKey) -> Any:
        """Read an entry that must be there."""
        value = data.get(key, None)
        if value is None:
            raise faults.missing_key(self, key, data, False)
        return value

    # Hooks --------------------------------------------------------------------------------------------------------

    def init(self, tensordict: TensorDictBase) -> None:
        """Prepare the transform for data. The default does nothing.

        Args:
            tensordict: an example of the data.
        """

    def dump(self, **kwargs: Any) -> None:
        """Write out what the transform has recorded. The default does nothing; a recorder overrides it.

        Args:
            **kwargs: read by the recorder.
        """

    def close(self) -> None:
        """Release what the transform holds; called when its env is closed. The default does nothing."""

    def transform_fake_tensordict(self, fake_tensordict: TensorDictBase) -> TensorDictBase:
        """Change what ``env.fake_tensordict()`` returns. The default returns it.

        Args:
            fake_tensordict: zeros of the env's specs.

        Returns:
            The TensorDict.
        """
        return fake_tensordict

    @property
    def collector(self) -> Any:
        """Not supported: transforms are not told which collector runs their env.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.collector is not supported: a transform is not told which collector runs its env. "
            "Fix: hand the collector to the transform yourself, env.transform.my_collector = collector."
        )

    # Copies -------------------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        super()._forget()
        self._carried = Carried()
        self._needs_rewards = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}(keys={self.in_keys})"


def key_list(keys: Keys | None, name: str) -> list[NestedKey]:
    """Spell one key or many as a list.

    Args:
        keys: a string, a tuple of strings (one nested key), a list of keys, or None for none.
        name: of the argument, for the error.

    Returns:
        A new list.

    Raises:
        TypeError: if one of them is no key.

    Example:
        >>> key_list("reward", "in_keys"), key_list(["reward", ("nested", "reward")], "in_keys")
        (['reward'], ['reward', ('nested', 'reward')])
    """
    if keys is None:
        return []
    if not isinstance(keys, (str, Sequence)):
        raise TypeError(faults.key_type(name, keys))
    for key in [keys] if isinstance(keys, str) else keys:
        if not isinstance(key, str) and not (isinstance(key, tuple) and key and all(isinstance(k, str) for k in key)):
            raise TypeError(faults.key_type(name, key))
    return [as_key(path) for path in as_keys(keys)]


def checked(transform: torch.nn.Module, result: Any) -> TensorDictBase:
    """Refuse what is no TensorDict.

    Args:
        transform: whose result it is.
        result: what one of its methods returned.

    Returns:
        The result.

    Raises:
        TypeError: if it is no TensorDict.
    """
    if not isinstance(result, TensorDictBase):
        raise TypeError(faults.returned(transform, result))
    return result


__all__ = ["Keys", "Transform", "checked", "key_list"]
