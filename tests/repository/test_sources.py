"""The house rules that can be checked in the files: imports, function lengths, first lines, docstrings, words."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import rlnb

ROOT = Path(__file__).parents[2]
MAX_FUNCTION_LINES = 70
PACKAGES = ("rlnb", "widgets/rlnb_widgets", "tutorials/exercises")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TEXT = {".py", ".js", ".mjs", ".css", ".md", ".toml", ".txt", ".ipynb", ".yml", ".yaml", ".json", ".cfg", ".svg", ""}

#: The packages that each package may import from, in annotations and inside of functions, too.
MAY_IMPORT = {
    "rlnb.data.ted": set(),
    "rlnb.data.specs": {"rlnb.data.ted"},
    "rlnb.data.replay_buffers": {"rlnb.data.specs", "rlnb.data.ted"},
    "rlnb.data": {"rlnb.data"},
    "rlnb.envs": {"rlnb.data"},
    "rlnb.modules": {"rlnb.data", "rlnb.envs"},
    "rlnb.collectors": {"rlnb.data", "rlnb.envs"},
    "rlnb.record": {"rlnb.data", "rlnb.envs"},
    "rlnb.objectives": {"rlnb.data", "rlnb.envs", "rlnb.modules"},
    "rlnb.search": {"rlnb.data", "rlnb.envs", "rlnb.modules"},
    "rlnb": set(),
}

# Written so that this file does not hold what it looks for.
FORBIDDEN = {
    "a path of one machine": r"(?<![\w.])/(?:wor" + r"k|hom" + r"e/\w|Use" + r"rs/\w|roo" + r"t/|op" + r"t/(?!google))",
    "a temporary path": r"(?<![\w.])/tm" + r"p/\w",
    "a package registry": r"py" + r"pi\.org|pythonho" + r"sted|npm" + r"js|file://" + r"/",
}
# Where one of these words is the very thing.
ALLOWED = {"tests/repository/test_sources.py", "tests/notebooks/test_committed.py"}


def repository_files() -> list[Path]:
    """The files of the repository, committed or about to be."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [ROOT / name for name in listed if (ROOT / name).is_file()]


class Source(NamedTuple):
    """What the tests ask about one file: a tree is large, and the trees of all files make each collection long."""

    first_line: str
    bare: list[str]  # public names without a docstring
    long: list[str]  # functions that are too long, with their length
    imported: list[tuple[int, str, str]]  # line, module and name; without a module, the name twice
    defined: set[str]  # names of functions, classes and variables of the module


@pytest.fixture(scope="module")
def sources() -> dict[Path, Source]:
    """The answers for all of our sources, each of which is parsed once."""
    return {path: read(path) for path in SOURCES}


def read(path: Path) -> Source:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    name = path.relative_to(ROOT).as_posix()
    bare = [f"{name}: {public}" for public, node in public_nodes(tree) if not ast.get_docstring(node)]  # type: ignore[arg-type]
    inside = list(statements(tree))
    functions = [node for node in inside if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = [(node.name, length_of(node)) for node in functions]
    long = [f"{name}: {function} has {lines} lines" for function, lines in lengths if lines > MAX_FUNCTION_LINES]
    imported = [
        (node.lineno, node.module if isinstance(node, ast.ImportFrom) and node.module else alias.name, alias.name)
        for node in inside
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]
    first_line = (ast.get_docstring(tree) or "").partition("\n")[0].rstrip()
    return Source(first_line, bare, long, imported, defined_names(tree))


def defined_names(tree: ast.Module) -> set[str]:
    """The functions, classes and variables of a module."""
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    named = {node.name for node in tree.body if isinstance(node, definitions)}
    values = [node for statement in tree.body if not isinstance(statement, definitions) for node in ast.walk(statement)]
    return named | {node.id for node in values if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def length_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function's body. Its docstring does not count."""
    document = ast.get_docstring(function, clean=False) or ""
    assert function.end_lineno is not None
    return function.end_lineno - function.body[0].lineno + 1 - (document.count("\n") + 1 if document else 0)


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements in a node, nested ones too. Expressions, most of a tree, hold none."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield child
            yield from statements(child)


def public_nodes(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Public classes and functions of a module, and the public methods of its public classes."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    for node in tree.body:
        if isinstance(node, kinds) and not node.name.startswith("_"):
            yield node.name, node
            for part in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(part, kinds) and not part.name.startswith("_") and not is_variant(part):
                    yield f"{node.name}.{part.name}", part


def is_variant(node: ast.AST) -> bool:
    """Whether a method is documented elsewhere: a setter by its property, an overload or override by its original."""
    names = [ast.unparse(decorator) for decorator in getattr(node, "decorator_list", ())]
    return any(re.search(r"\.(setter|deleter)$|overload$|override$", name) for name in names)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_says_in_its_first_line_what_it_does(package: str, sources: dict[Path, Source]) -> None:
    in_package = [path for path in SOURCES if path.is_relative_to(ROOT / package)]
    silent = [
        path.relative_to(ROOT).as_posix() for path in in_package if not sources[path].first_line.endswith((".", ":"))
    ]
    assert in_package
    assert silent == []


@pytest.mark.parametrize("package", PACKAGES)
def test_everything_public_has_a_docstring(package: str, sources: dict[Path, Source]) -> None:
    in_package = [source for path, source in sources.items() if path.is_relative_to(ROOT / package)]
    assert in_package
    assert [name for source in in_package for name in source.bare] == []


def test_every_class_that_the_library_exports_has_an_example() -> None:
    packages = [info.name for info in pkgutil.walk_packages(rlnb.__path__, "rlnb.") if info.ispkg]
    exported = {
        value
        for package in map(importlib.import_module, packages)
        for name in getattr(package, "__all__", ())
        if isinstance(value := getattr(package, name), type) and value.__module__.startswith("rlnb.")
    }
    assert len(exported) > 300
    assert sorted(cls.__name__ for cls in exported if "Example:" not in (cls.__doc__ or "")) == []


def test_functions_fit_a_screen(sources: dict[Path, Source]) -> None:
    """A long file is fine where a class needs it; a body that no screen shows is not."""
    assert [function for source in sources.values() for function in source.long] == []


def test_modules_import_each_name_from_the_module_that_defines_it(sources: dict[Path, Source]) -> None:
    defined = {path: source.defined for path, source in sources.items() if path.is_relative_to(ROOT / "rlnb")}
    found = [
        f"{path.relative_to(ROOT).as_posix()}:{line}: {name} of {module}"
        for path in sources
        if path.name != "__init__.py" and not path.is_relative_to(ROOT / "tutorials")  # a course imports as users do
        for line, module, name in sources[path].imported
        if module.split(".")[0] == "rlnb" and module != name
        if not is_defined_by(name, ROOT.joinpath(*module.split(".")), defined)
    ]
    assert found == []


def package_of(module: str) -> str:
    """The package of a module, or of a package itself, in the table of what may be imported."""
    return next(package for package in MAY_IMPORT if f"{module}.".startswith(f"{package}."))


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_one_way(package: str, sources: dict[Path, Source]) -> None:
    """An import for annotations counts: a package describes what it needs of a higher one with a ``Protocol``."""
    modules = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in sources}
    allowed = (*MAY_IMPORT[package], package)
    checked, found = 0, []
    for path, module in modules.items():
        if not module.startswith("rlnb.") or package_of(module.removesuffix(".__init__")) != package:
            continue
        checked += 1
        for line, imported, name in sources[path].imported:
            target = imported if imported == name else f"{imported}.{name}"
            home = package_of(target) if target.startswith("rlnb.") else target.split(".")[0]
            # All may import what is beside the packages. The rule of a package holds for the packages in it, too.
            within = home == "rlnb" or any(one != "rlnb" and f"{home}.".startswith(f"{one}.") for one in allowed)
            if home.startswith(("rlnb.", "rlnb_widgets")) and not within:
                found.append(f"{path.relative_to(ROOT).as_posix()}:{line}: {target}")
    assert checked
    assert found == []


def is_defined_by(name: str, module: Path, defined: dict[Path, set[str]]) -> bool:
    """Whether a module or package defines a name or is its parent, or has a list of public names that ``*`` imports."""
    if name == "*" or {module / f"{name}.py", module / name / "__init__.py"} & defined.keys():
        return True
    file = module.with_suffix(".py")
    return name in defined[file if file in defined else module / "__init__.py"]


def test_no_visualizer_imports_the_insides_of_another() -> None:
    """What several of them need is in ``_core``, the drawings of envs are in ``scenes``.

    A visualizer that shows another one inside, such as the frames of a rollout, imports from its package, or from the
    script that is offered for that.
    """
    shared, offered = {"_core", "scenes"}, {"../rollout_player/frames.js"}
    home = ROOT / "widgets/rlnb_widgets"
    folders = {path.parent.name for path in home.glob("*/__init__.py")} - shared
    importing = re.compile(r"(?:from|import) rlnb_widgets\.(\w+)(?=\.)|from [\"'](\.\./(\w+)/[^\"']*)")
    wrong = []
    for path in sorted([*home.rglob("*.py"), *home.rglob("*.js")]):
        own = path.relative_to(home).parts[0]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = importing.search(line)
            other = found and (found[1] or found[3])
            if other in folders - {own} and path.parent != home and found[2] not in offered:
                wrong.append(f"{path.relative_to(home).as_posix()}:{number} {line.strip()}")
    assert len(folders) == 9
    assert wrong == []


def test_no_file_names_a_machine_or_a_registry() -> None:
    found = []
    for path in repository_files():
        name = path.relative_to(ROOT).as_posix()
        if path.suffix not in TEXT or name in ALLOWED:
            continue
        text = re.sub(r"base64,[A-Za-z0-9+/=]+", "", path.read_text(encoding="utf-8"))
        for what, pattern in FORBIDDEN.items():
            found += [f"{name}: {what}: {match[0]}" for match in re.finditer(pattern, text)]
    assert found == []


def test_every_skip_gives_a_reason() -> None:
    """Tests leave something out through the fixture ``missing``, which the summary reports, and not by themselves."""
    pattern = re.compile(r"pytest\.(skip|importorskip|mark\.(skip|skipif|xfail))\b|unittest\.skip")
    silent = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("*.py")
        if path != Path(__file__) and pattern.search(path.read_text(encoding="utf-8"))
    ]
    assert silent == []


def test_no_widget_calls_remove_child() -> None:
    """The browser tests take an error of that call for JupyterLab's own."""
    scripts = sorted((ROOT / "widgets/rlnb_widgets").rglob("*.js"))
    assert len(scripts) > 40
    assert [path.name for path in scripts if "removeChild" in path.read_text()] == []
