"""The gym backend in use: gymnasium, gym or a compatible module."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from collections.abc import Callable
from types import ModuleType

from rlnb._utils import register_rivals
from rlnb.envs.libs.libraries import is_installed

GYM_BACKENDS = ("gymnasium", "gym")
"""Known backends, the default first."""

Backend = str | ModuleType | Callable[[], ModuleType]

_in_use: ModuleType | None = None


class set_gym_backend(contextlib.ContextDecorator):
    """Set the gym backend for a block of code, or while a decorated function runs.

    Blocks can be nested; the end of a block restores the previous backend, also after an error. The backend is set
    for the whole process, not for one thread.

    Args:
        backend: a module, its name, or a function that returns it. Names and functions are resolved when the block
            begins, so nothing is imported earlier.

    Raises:
        TypeError: If ``backend`` is neither a module nor a name nor a function.
        ImportError: If there is no such module, or it has no function ``make``. Raised when the block begins.

    Example:
        >>> with set_gym_backend("gymnasium"):
        ...     gym_backend().__name__
        'gymnasium'
        >>> @set_gym_backend("gymnasium")
        ... def make():
        ...     return gym_backend().make("CartPole-v1")
        >>> make().spec.id
        'CartPole-v1'
    """

    def __init__(self, backend: Backend) -> None:
        if not isinstance(backend, (str, ModuleType)) and not callable(backend):
            raise TypeError(
                f"A gym backend must be a module, its name or a function that returns it, got {backend!r}. "
                'Fix: set_gym_backend("gymnasium").'
            )
        self.backend = backend
        self._before: list[ModuleType | None] = []

    def set(self) -> None:
        """Set the backend permanently."""
        global _in_use
        _in_use = _load(self.backend)

    def __enter__(self) -> None:
        before = _in_use
        self.set()
        self._before.append(before)

    def __exit__(self, *exc_info: object) -> None:
        global _in_use
        _in_use = self._before.pop()


def gym_backend(submodule: str | None = None) -> ModuleType:
    """Return the gym backend that :class:`set_gym_backend` has set; by default gymnasium, or gym if only that is there.

    Args:
        submodule: return one of its modules instead, such as ``"wrappers"``.

    Raises:
        ImportError: If no backend is installed, or it has no such module.

    Example:
        >>> gym_backend().__name__, gym_backend("wrappers").__name__
        ('gymnasium', 'gymnasium.wrappers')
    """
    backend = _in_use if _in_use is not None else _default()
    if submodule is None:
        return backend
    name = f"{backend.__name__}.{submodule}"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module exists, and an import of its own failed
        names = ", ".join(sorted(module.name for module in pkgutil.iter_modules(getattr(backend, "__path__", []))))
        raise ModuleNotFoundError(
            f"The gym backend {backend.__name__} has no module {submodule!r}. It has: {names or 'none'}.", name=name
        ) from None


def installed_backends() -> list[str]:
    """List the names of the backends that are installed, the default first."""
    return [name for name in GYM_BACKENDS if is_installed(name)]


def _default() -> ModuleType:
    installed = installed_backends()
    if not installed:
        raise ModuleNotFoundError(f"No gym backend is installed. Fix: install {GYM_BACKENDS[0]}.")
    return importlib.import_module(installed[0])


def _load(backend: Backend) -> ModuleType:
    module: object = backend
    if isinstance(backend, str):
        module = _import(backend)
    elif not isinstance(backend, ModuleType):
        module = backend()
    if not isinstance(module, ModuleType) or not callable(getattr(module, "make", None)):
        what = module.__name__ if isinstance(module, ModuleType) else repr(module)
        raise ImportError(
            f"{what} is not a gym backend: it has no function make(id). "
            f"Installed backends: {', '.join(installed_backends())}."
        )
    return module


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise
        installed = installed_backends()
        raise ModuleNotFoundError(
            f"The gym backend {name!r} is not installed. Installed backends: {', '.join(installed)}. "
            f'Fix: set_gym_backend("{installed[0] if installed else GYM_BACKENDS[0]}"), or install {name}.',
            name=name,
        ) from None


register_rivals(GYM_BACKENDS, lambda: gym_backend().__name__)
