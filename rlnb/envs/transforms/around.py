"""AroundBase: what an env around another takes from it: specs that follow its own, attributes, seed, life."""

from __future__ import annotations

import contextlib
from typing import Any, Self

from tensordict import TensorDict

from rlnb.data import Composite, TensorSpec
from rlnb.envs.base import EnvBase
from rlnb.envs.life import close
from rlnb.envs.specs import ForgetfulCache, with_twins
from rlnb.envs.transforms import faults
from rlnb.envs.transforms.of_base import OfBase
from rlnb.envs.transforms.transform import Transform


class AroundBase(EnvBase):
    """The part of :class:`TransformedEnv` that is no step and no reset.

    Args:
        base_env: the env inside.
        cache_specs: whether the specs are kept until something changes.
    """

    _specs_follow = faults.SPECS_FOLLOW

    _base: EnvBase
    _chain: Transform
    is_closed = OfBase()
    _run_type_checks = OfBase()
    allow_done_after_reset = OfBase()
    batch_locked = OfBase()
    _checks_data = OfBase()
    _generator_state = OfBase()
    _seed = OfBase()

    def __init__(self, base_env: EnvBase, cache_specs: bool) -> None:
        super().__init__(base_env.device, base_env.batch_size)
        self._cache_specs = cache_specs

    def _hold(self, base_env: EnvBase, chain: Transform) -> None:
        """Put a base env and a transform into this env."""
        chain.set_container(self)
        # Both as submodules, for train() and the like, and as plain attributes, which are found faster.
        self._modules.update(base_env=base_env, transform=chain)
        self.__dict__.update(_base=base_env, _chain=chain)

    @property
    def base_env(self) -> EnvBase:
        """The env inside."""
        return self._base

    @property
    def transform(self) -> Transform:
        """What the data passes through."""
        return self._chain

    # Specs --------------------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        """Compute the specs anew: something that they follow from has changed."""
        self._stored_specs = self._transformed_specs()
        self._origin = list(self._base._specs.values())
        self._batch_size = self._chain.transform_env_batch_size(self._base.batch_size)
        self._device = self._chain.transform_env_device(self._base.device)
        self._inverts = self._chain.invertible
        self._unchecked = {"reset", "step"}
        self.__dict__["_cache"] = {} if self._cache_specs else ForgetfulCache()
        self._chain.empty_cache()
        self.assert_distinct_keys()

    def _transformed_specs(self) -> dict[str, Composite]:
        base, chain = self._base, self._chain
        # Inputs first: what an env reads back from its outputs must stay among them.
        given = chain.transform_input_spec(base.input_spec)
        output = chain.transform_output_spec(base.output_spec)
        specs = {name: composite[name] for composite in (given, output) for name in composite}
        specs["full_done_spec"] = with_twins(specs["full_done_spec"])
        return {name: spec.lock_() for name, spec in specs.items()}

    def _follow_base(self) -> None:
        """Compute the specs anew if those of the base env were replaced."""
        if self._base.is_spec_locked and not all(map(_is, self._origin, self._base._specs.values())):
            self._changed()

    @property
    def _specs(self) -> dict[str, Composite]:
        if not self._cache_specs:
            return self._transformed_specs()
        self._follow_base()
        return self._stored_specs

    @_specs.setter
    def _specs(self, specs: dict[str, Composite]) -> None:
        """The specs that every env begins with are not those of this one."""

    def _set_spec(self, name: str, spec: TensorSpec, default_key: str) -> None:
        if "_base" in self.__dict__:
            raise RuntimeError(faults.spec_set(name))

    def _keys(self, name: str) -> list[Any]:
        self._follow_base()
        return super()._keys(name)

    def _group(self, name: str, members: tuple[str, ...]) -> Composite:
        self._follow_base()
        return super()._group(name, members)

    def add_truncated_keys(self) -> Self:
        """Add a "truncated" signal beside each "done" of the base env.

        Returns:
            The env.
        """
        self._base.add_truncated_keys()
        self._follow_base()
        return self

    @property
    def is_spec_locked(self) -> bool:
        """Whether the specs of the base env are locked."""
        return "_base" not in self.__dict__ or self._base.is_spec_locked

    def set_spec_lock_(self, mode: bool = True) -> Self:
        """Lock or unlock the specs of the base env; those of this env are computed from them.

        Args:
            mode: True (the default) locks them.

        Returns:
            The env.
        """
        self._base.set_spec_lock_(mode)
        self._follow_base()
        return self

    def empty_cache(self) -> None:
        """Forget what was derived from the specs, and compute them anew."""
        if "_base" in self.__dict__:
            self._changed()

    # Seed, life ---------------------------------------------------------------------------------------------------

    def _set_seed(self, seed: int | None) -> None:
        self._base._set_seed(seed)

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seed the base env, and the random actions; see :meth:`EnvBase.set_seed`.

        Args:
            seed: the seed, an integer from 0 on; None seeds with nothing in particular.
            static_seed: return ``seed`` itself.

        Returns:
            The seed for the next env of a chain.
        """
        return self._base.set_seed(seed, static_seed)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move the base env and the transforms to a device.

        Args:
            *args: as for ``torch.nn.Module.to``.
            **kwargs: as for ``torch.nn.Module.to``.

        Returns:
            The env.
        """
        self._base.to(*args, **kwargs)
        self._chain.to(*args, **kwargs)
        self._changed()
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]  # torch overloads it
        """Return the buffers and parameters of the transforms; those of the base env are its own matter.

        Args:
            *args: as for ``torch.nn.Module.state_dict``.
            **kwargs: as for ``torch.nn.Module.state_dict``.

        Returns:
            Tensors by name, as of ``env.transform.state_dict()``.
        """
        return self._chain.state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        """Load buffers and parameters of the transforms.

        Args:
            state_dict: what :meth:`state_dict` returned.
            *args: as for ``torch.nn.Module.load_state_dict``.
            **kwargs: as for ``torch.nn.Module.load_state_dict``.

        Returns:
            The missing and unexpected keys.
        """
        return self._chain.load_state_dict(state_dict, *args, **kwargs)

    def close(self, *, raise_if_closed: bool = False) -> None:
        """Close the transforms and the base env.

        Args:
            raise_if_closed: raise RuntimeError if it is closed already.
        """
        self._chain.close()
        close(self._base, raise_if_closed)

    def fake_tensordict(self) -> TensorDict:
        """Make a step of zeros with the keys, shapes and dtypes of a real one; see :meth:`EnvBase.fake_tensordict`."""
        fake: Any = self._chain.transform_fake_tensordict(super().fake_tensordict())
        return fake

    def __del__(self) -> None:
        """Leave the base env alone: others may hold it, and it closes itself when nobody does."""

    def __getattr__(self, name: str) -> Any:
        with contextlib.suppress(AttributeError):
            return super().__getattr__(name)
        base = self.__dict__.get("_base")
        if base is None or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")
        try:
            return getattr(base, name)
        except AttributeError as error:
            raise AttributeError(faults.no_attribute(self, base, name)) from error

    def __repr__(self) -> str:
        env = f"env={self._base!r}".replace("\n", "\n    ")
        transform = f"transform={self._chain!r}".replace("\n", "\n    ")
        return f"{type(self).__name__}(\n    {env},\n    {transform})"


def _is(a: Any, b: Any) -> bool:
    return a is b


__all__ = ["AroundBase"]
