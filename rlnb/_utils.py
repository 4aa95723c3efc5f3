"""implement_for: functions with one implementation per range of library versions; and the logger of rlnb."""

from __future__ import annotations

import functools
import importlib
import logging
import re
from collections.abc import Callable, Sequence
from importlib import metadata
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
_Release = tuple[int, ...]


class _Implementation(NamedTuple):
    """An implementation and the versions that it supports."""

    module: str | Callable[[], ModuleType]
    from_version: str | None
    to_version: str | None
    function: Callable[..., Any]

    @property
    def module_name(self) -> str:
        return self.module if isinstance(self.module, str) else getattr(self.module, "__name__", "a module")

    def __str__(self) -> str:
        bounds = [("from", self.from_version), ("below", self.to_version)]
        given = " and ".join(f"{word} {version}" for word, version in bounds if version is not None)
        return f"{self.module_name} {given or 'of any version'}"


class implement_for:
    """Decorator that selects the implementation of a function by the installed version of a library.

    Decorate several functions of the same name in the same scope, each with its range of versions. A call goes to the
    one whose library is installed in a matching version; if several match, to the last of them. Among implementations
    for alternative libraries (see :class:`~rlnb.envs.libs.gym.set_gym_backend`), the one for the library in use is
    called. Libraries are imported at the first call.

    The library itself does not use it: it exists for wrappers that users write, as TorchRL documents it.

    Args:
        module_name: name of the library, or a function that returns the module.
        from_version: the first matching version, such as ``"0.26.0"``. Default: no limit. Of pre-releases only the
            numbers count: ``"1.0rc1"`` is 1.0.
        to_version: the first version that is too new. Default: no limit.

    Raises:
        TypeError: If ``module_name`` is neither a string nor a function.
        ValueError: If a version has no numbers, or the range is empty.

    Example:
        >>> @implement_for("gymnasium", None, "0.26.0")
        ... def parts_of_a_step():
        ...     return 4
        >>> @implement_for("gymnasium", "0.26.0", None)
        ... def parts_of_a_step():
        ...     return 5
        >>> parts_of_a_step()
        5
    """

    def __init__(
        self,
        module_name: str | Callable[[], ModuleType],
        from_version: str | None = None,
        to_version: str | None = None,
    ) -> None:
        if not isinstance(module_name, str) and not callable(module_name):
            raise TypeError(
                f"implement_for needs the name of a library or a function that returns it, got {module_name!r}. "
                'Fix: implement_for("gymnasium", from_version, to_version).'
            )
        if from_version is not None and to_version is not None and _release(from_version) >= _release(to_version):
            raise ValueError(
                f"The range of versions from {from_version} to below {to_version} is empty. "
                "Fix: pass the smaller version first; the second one is not part of the range."
            )
        for version in (from_version, to_version):
            _release(version or "0")
        self.module_name, self.from_version, self.to_version = module_name, from_version, to_version

    def __call__(self, function: F) -> F:
        """Add an implementation, and return a function that calls the matching one of this name."""
        name = f"{function.__module__}.{function.__qualname__}"
        implementations = _IMPLEMENTATIONS.setdefault(name, [])
        new = _Implementation(self.module_name, self.from_version, self.to_version, function)
        # Running a notebook cell again replaces its definitions.
        implementations[:] = [old for old in implementations if old[:3] != new[:3]]
        implementations.append(new)

        @functools.wraps(function)
        def choose(*args: Any, **kwargs: Any) -> Any:
            return _fitting(name, implementations)(*args, **kwargs)

        return choose  # type: ignore[return-value]  # it has the signature of the function

    @staticmethod
    def check_version(version: str, from_version: str | None, to_version: str | None) -> bool:
        """Whether a version is in a range, from ``from_version`` to below ``to_version`` (``None`` for no limit).

        Example:
            >>> implement_for.check_version("0.26.2", "0.26.0", None)
            True
        """
        release = _release(version)
        above = from_version is None or release >= _release(from_version)
        return above and (to_version is None or release < _release(to_version))


_IMPLEMENTATIONS: dict[str, list[_Implementation]] = {}
_RIVALS: dict[str, Callable[[], str]] = {}


def register_rivals(names: Sequence[str], in_use: Callable[[], str]) -> None:
    """Declare alternative libraries, used one at a time: the one whose name ``in_use`` returns."""
    _RIVALS.update(dict.fromkeys(names, in_use))


def _fitting(name: str, implementations: Sequence[_Implementation]) -> Callable[..., Any]:
    """The last implementation that matches the installed versions, preferably of the alternative in use."""
    fitting, found = [], {}
    for implementation in implementations:
        version = found[implementation.module_name] = _installed(implementation)
        if version is not None and implement_for.check_version(version, *implementation[1:3]):
            fitting.append(implementation)
    in_use = [one for one in fitting if one.module_name in _RIVALS and _RIVALS[one.module_name]() == one.module_name]
    if fitting:
        return (in_use or fitting)[-1].function
    state = ", ".join(f"{module} {version or 'is not installed'}" for module, version in found.items())
    raise ModuleNotFoundError(
        f"{name} has no implementation for the installed versions ({state}). "
        f"It has implementations for: {'; '.join(map(str, implementations))}. "
        "Fix: install one of these, or add a function decorated with @implement_for for your version."
    )


def _installed(implementation: _Implementation) -> str | None:
    """The installed version of the library, or ``None``."""
    try:
        if isinstance(implementation.module, str):
            module = importlib.import_module(implementation.module)
        else:
            module = implementation.module()
    except ModuleNotFoundError as error:
        if isinstance(implementation.module, str) and not f"{implementation.module}.".startswith(f"{error.name}."):
            raise  # the library is installed, but broken
        return None
    version = getattr(module, "__version__", None)
    return str(version) if version is not None else metadata.version(module.__name__.partition(".")[0])


@functools.cache
def _release(version: str) -> _Release:
    """The numbers of a version, without trailing zeros: 1.0 and 1.0.0 are equal."""
    numbers = re.match(r"v?(\d+(?:\.\d+)*)", version.strip())
    if numbers is None:
        raise ValueError(f'A version must start with numbers, got {version!r}. Fix: write it like "0.26.0".')
    parts = [int(part) for part in numbers[1].split(".")]
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


#: The logger of the library. Its messages go where the program's logging configuration sends them.
logger = logging.getLogger("rlnb")
logger.addHandler(logging.NullHandler())

__all__ = ["implement_for", "logger", "register_rivals"]
