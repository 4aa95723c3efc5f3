"""Print the lowest versions that ``pyproject.toml`` admits, as constraints for pip.

``make test-oldest`` installs them into an environment of their own and runs the tests there.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def lowest_versions(extra: str = "test") -> list[str]:
    """Lowest admitted version of each dependency, extras that the given one includes among them.

    Args:
        extra: the extra to install.

    Returns:
        Lines such as ``"numpy==2.0"``, sorted.

    Raises:
        ValueError: If a dependency has no lower bound.
    """
    wanted, seen = [*PROJECT["dependencies"], f"rlnb[{extra}]"], set[str]()
    lines = set[str]()
    while wanted:
        requirement = wanted.pop()
        name, extras, bound = re.fullmatch(r"([\w-]+)(?:\[([\w,-]+)\])?(?:>=([\d.]+))?", requirement).groups()
        if name == "rlnb":
            for part in set(extras.split(",")) - seen:
                seen.add(part)
                wanted += PROJECT["optional-dependencies"][part]
        elif bound:
            lines.add(f"{name}=={bound}")
        elif name not in {re.split(r"[\[>]", other)[0] for other in PROJECT["dependencies"]}:
            raise ValueError(f"{requirement!r} in pyproject.toml has no lower bound. Fix: write {name}>=VERSION.")
    return sorted(lines)


if __name__ == "__main__":
    print("\n".join(lowest_versions()))
