"""Registry of scenes by environment: look one up by env or id, or add your own."""

from __future__ import annotations

import re
from typing import Any, Protocol, runtime_checkable

from rlnb_widgets.scenes.acrobot import Acrobot
from rlnb_widgets.scenes.bandit import Bandit
from rlnb_widgets.scenes.blackjack import Blackjack
from rlnb_widgets.scenes.board import Board
from rlnb_widgets.scenes.cartpole import CartPole
from rlnb_widgets.scenes.grid import CliffWalking, FrozenLake, GridMap
from rlnb_widgets.scenes.library_boards import LIBRARY_BOARDS
from rlnb_widgets.scenes.mountain_car import MountainCar
from rlnb_widgets.scenes.pendulum import Pendulum, PendulumAngles
from rlnb_widgets.scenes.scene import Scene
from rlnb_widgets.scenes.spread import Spread
from rlnb_widgets.scenes.taxi import Taxi
from rlnb_widgets.scenes.vmas import VmasAgents


@runtime_checkable
class SceneSpec(Protocol):
    """Draws the observations of one environment."""

    def pose(self, observations: Any, actions: Any = None) -> Scene:
        """Return the scene of N observations, with the actions taken in them if given."""
        ...


@runtime_checkable
class FitsEnv(SceneSpec, Protocol):
    """A scene that depends on how the env was made, such as on its map."""

    def for_env(self, env: Any) -> SceneSpec:
        """Return the scene that draws this very env."""
        ...


_SCENES: dict[str, SceneSpec] = {
    **LIBRARY_BOARDS,
    "Acrobot": Acrobot(),
    "Blackjack": Blackjack(),
    "CartPole": CartPole(),
    "CliffWalking": CliffWalking(),
    "CliffWalkingSlippery": CliffWalking(),
    "FrozenLake": FrozenLake(),
    "FrozenLake8x8": FrozenLake(map_name="8x8"),
    "MountainCar": MountainCar(),
    "MountainCarContinuous": MountainCar(goal=0.45, continuous=True),
    "Pendulum": Pendulum(),
    "Taxi": Taxi(),
    **dict.fromkeys(
        ("mo-mountaincar", "mo-mountaincar-3d", "mo-mountaincar-timemove", "mo-mountaincar-timespeed"), MountainCar()
    ),
    "mo-mountaincarcontinuous": MountainCar(goal=0.45, continuous=True),
    "phys2d/CartPole": CartPole(),
    "phys2d/Pendulum": Pendulum(),
    "rlnb/Bandit": Bandit(),
    "rlnb/CartPole": CartPole(),
    "rlnb/ConnectFour": Board(6, 7, 4, drops=True),
    "rlnb/GridWorld": GridMap(),
    "rlnb/MountainCar": MountainCar(),
    "rlnb/Pendulum": PendulumAngles(),
    "rlnb/Spread": Spread(),
    "rlnb/TicTacToe": Board(),
    "tabular/CliffWalking": CliffWalking(),
    "vmas": VmasAgents(),
}


def _without_version(name: str) -> str:
    return re.sub(r"-v\d+$", "", name.rpartition(":")[2])


def scene_names() -> list[str]:
    """Return the names of the environments that can be drawn, sorted.

    Example:
        >>> "CartPole" in scene_names()
        True
    """
    return sorted(_SCENES)


def register_scene(name: str, spec: SceneSpec) -> None:
    """Draw the env `name` with `spec` from now on, in place of any scene it had.

    Args:
        name: env id; a version at its end is dropped, as a scene draws all versions.
        spec: an object with ``pose(observations, actions=None) -> Scene``. If it has ``reads``, a tuple of keys, its
            observations are these entries in place of "observation": one entry as it is, several one a column. If it
            has ``fields``, names of the components, strips have these names; ``limits`` maps names to values of
            :class:`~rlnb_widgets.scenes.Limit` that are drawn in them.

    Raises:
        TypeError: If `spec` has no such method (a class is not an object of it).

    Example:
        >>> register_scene("MyCartPole-v0", CartPole())
        >>> find_scene("MyCartPole-v1") is not None
        True
    """
    if isinstance(spec, type):
        raise TypeError(f"register_scene needs an object, got the class {spec.__name__}; pass {spec.__name__}().")
    if not isinstance(spec, SceneSpec):
        raise TypeError(
            f"a scene needs a method pose(observations, actions=None) that returns a Scene; "
            f"{type(spec).__name__} has none."
        )
    _SCENES[_without_version(name)] = spec


def _read(owner: Any, name: str) -> Any:
    """Return an attribute, or None if there is none or reading it fails.

    A batched env that has not started, or a closed one, may raise anything when it is asked for an attribute that it
    forwards. The search for a drawing must not break the notebook.
    """
    try:
        return getattr(owner, name, None)
    except Exception:
        return None


def _env_id(env: Any) -> str | None:
    """Return the id that an env was made from."""
    for owner in (env, _read(env, "unwrapped")):
        found = _read(_read(owner, "spec"), "id")
        if isinstance(found, str):
            return found
    name = _read(env, "env_name")
    return name if isinstance(name, str) else _own_name(env)


def _own_name(env: Any) -> str | None:
    """Return the name of an env of rlnb's own in the registry: that of its class or of a base class."""
    own = (cls.__name__ for cls in type(env).__mro__ if cls.__module__.partition(".")[0] == "rlnb")
    names = (f"rlnb/{name.removesuffix('Env')}" for name in own)
    return next((name for name in names if name in _SCENES), None)


def _library_name(env: Any) -> str | None:
    """Return the name of an env of another library in the registry: its library and its own, or the library alone."""
    library = _read(env, "libname")
    name = next(filter(None, (_read(env, what) for what in ("env_name", "task"))), None)
    names = (f"{library}/{str(name).rpartition('/')[2]}", library)
    return next((found for found in names if isinstance(found, str) and found in _SCENES), None)


def _layers(env: Any) -> list[Any]:
    """Return an env and the envs that it wraps, outermost first."""
    layers = [env]
    while len(layers) < 32:  # an env that holds itself must not hang
        held = (_read(layers[-1], name) for name in ("_env", "base_env"))
        inner = next((e for e in held if e is not None), None)
        if inner is None:
            break
        layers.append(inner)
    return layers


def find_scene(env_or_id: Any) -> SceneSpec | None:
    """Return what draws an environment from its observations, or None if nothing does.

    A scene that depends on the env is fitted to it: FrozenLake takes the env's map.

    Args:
        env_or_id: a Gymnasium env (wrapped or not), an env that holds one (``_env``, ``base_env``
            or ``env_name``), an env of rlnb's own, or an id such as ``"CartPole-v1"``; the version does not matter.

    Example:
        >>> find_scene("CartPole-v1").pose([[0.0, 0.0, 0.1, 0.0]]).poses.shape
        (1, 10, 3)
        >>> find_scene("NoSuchEnv-v0") is None
        True
    """
    if isinstance(env_or_id, str):
        return _SCENES.get(_without_version(env_or_id))
    chain = _layers(env_or_id)
    for env in chain:
        library = _library_name(env)
        if library is not None:
            of_library = _SCENES[library]
            return of_library.for_env(env) if isinstance(of_library, FitsEnv) else of_library
    name = next(filter(None, map(_env_id, chain)), None)
    spec = None if name is None else _SCENES.get(_without_version(name))
    return spec.for_env(chain[-1]) if isinstance(spec, FitsEnv) else spec
