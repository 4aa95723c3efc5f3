"""implement_for: the implementation for the installed version of a library."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlnb._utils import implement_for


@pytest.fixture
def harp(monkeypatch) -> ModuleType:
    """A library whose version a test sets."""
    module = ModuleType("harp")
    monkeypatch.setitem(sys.modules, "harp", module)
    return module


def three():
    @implement_for("harp", None, "0.13")
    def play(*strings, loud=False):
        return "oldest", strings, loud

    @implement_for("harp", "0.13", "0.26.0")
    def play(*strings, loud=False):  # noqa: F811 - one of several
        return "older", strings, loud

    @implement_for("harp", "0.26.0", None)
    def play(*strings, loud=False):  # noqa: F811 - one of several
        """Play."""
        return "new", strings, loud

    return play


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.1", "oldest"),
        ("0.12.9", "oldest"),
        ("0.13", "older"),
        ("0.13.0", "older"),
        ("0.25.2", "older"),
        ("0.26.0rc1", "new"),
        ("0.26", "new"),
        ("0.26.2", "new"),
        ("v1.0.0+local", "new"),
        ("10.0", "new"),
    ],
)
def test_the_version_decides(harp, version, expected):
    play = three()
    harp.__version__ = version
    assert play(1, 2, loud=True) == (expected, (1, 2), True)
    assert (play.__name__, play.__doc__) == ("play", "Play.")


def test_the_documented_example():
    @implement_for("gymnasium", None, "0.26.0")
    def fun():
        return 0

    first = fun

    @implement_for("gymnasium", "0.26.0", None)
    def fun():
        return 1

    assert fun() == 1 and first() == 1  # whichever name was kept


def test_of_several_that_fit_the_last_is_taken(harp):
    harp.__version__ = "2.0"

    @implement_for("harp", "1.0")
    def play():
        return "first"

    @implement_for("harp", "1.5")
    def play():  # noqa: F811 - one of several
        return "last"

    assert play() == "last"
    harp.__version__ = "1.2"
    assert play() == "first"


def test_methods(harp):
    harp.__version__ = "2.0"

    class Player:
        strings = 47

        @implement_for("harp", None, "1.0")
        def play(self):
            return 0

        @implement_for("harp", "1.0", None)
        def play(self):  # noqa: F811 - one of several
            return self.strings

    class Other:
        @implement_for("harp", "1.0", None)
        def play(self):
            return "another class, another function"

    assert Player().play() == 47
    assert Other().play() == "another class, another function"


def test_a_function_may_return_the_library(harp):
    harp.__version__ = "2.0"

    @implement_for(lambda: harp, "1.0")
    def play():
        return "played"

    assert play() == "played"


def test_defining_it_again_replaces_it(harp):
    harp.__version__ = "2.0"

    def define(value):
        @implement_for("harp", "1.0")
        def play():
            return value

        return play

    assert define(1)() == 1
    play = define(2)
    assert play() == 2
    harp.__version__ = "0.5"
    with pytest.raises(ImportError) as caught:
        play()
    assert str(caught.value).count("harp from 1.0") == 1


def test_a_version_in_the_metadata_alone_will_do(harp, monkeypatch):
    monkeypatch.setattr("rlnb._utils.metadata.version", lambda name: {"harp": "3.1"}[name])

    @implement_for("harp", "3.0")
    def play():
        return "played"

    assert play() == "played"


def test_without_a_matching_version_the_error_lists_all(harp):
    harp.__version__ = "0.9"

    @implement_for("harp", "1.0", "2.0")
    def play(): ...

    @implement_for("harp", "2.0")
    def play(): ...  # noqa: F811 - one of several

    @implement_for("a_missing_lyre.strings", None, "3")
    def play(): ...  # noqa: F811 - one of several

    @implement_for("a_missing_lyre")
    def play(): ...  # noqa: F811 - one of several

    with pytest.raises(ImportError) as caught:
        play()
    where = "test_implement_for.test_without_a_matching_version_the_error_lists_all.<locals>.play"
    assert str(caught.value).partition(where)[2] == (
        " has no implementation for the installed versions (harp 0.9, a_missing_lyre.strings is not installed, "
        "a_missing_lyre is not installed). It has implementations for: harp from 1.0 and below 2.0; harp from 2.0; "
        "a_missing_lyre.strings below 3; a_missing_lyre of any version. Fix: install one of these, or add a "
        "function decorated with @implement_for for your version."
    )


def test_a_library_that_is_broken_inside_says_so_itself(tmp_path, monkeypatch):
    (tmp_path / "cracked_harp.py").write_text("import a_missing_string")
    monkeypatch.syspath_prepend(str(tmp_path))

    @implement_for("cracked_harp")
    def play(): ...

    with pytest.raises(ModuleNotFoundError, match="a_missing_string"):
        play()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            (3,),
            TypeError,
            "implement_for needs the name of a library or a function that returns it, got 3. Fix: "
            'implement_for("gymnasium", from_version, to_version).',
        ),
        (
            ("harp", "new", None),
            ValueError,
            "A version must start with numbers, got 'new'. Fix: write it like \"0.26.0\".",
        ),
        (
            ("harp", None, "x1"),
            ValueError,
            "A version must start with numbers, got 'x1'. Fix: write it like \"0.26.0\".",
        ),
        (
            ("harp", "1.0", "1.0.0"),
            ValueError,
            "The range of versions from 1.0 to below 1.0.0 is empty. Fix: pass the smaller version first; the "
            "second one is not part of the range.",
        ),
    ],
)
def test_what_is_refused(arguments, error, text):
    with pytest.raises(error) as caught:
        implement_for(*arguments)
    assert str(caught.value) == text


numbers = st.lists(st.integers(0, 30), min_size=1, max_size=4)


@given(numbers, numbers)
def test_each_version_lies_on_one_side_of_a_bound(version, bound):
    version_text, bound_text = (".".join(map(str, parts)) for parts in (version, bound))
    below = implement_for.check_version(version_text, None, bound_text)
    assert below is not implement_for.check_version(version_text, bound_text, None)
    padded = [parts + [0] * (4 - len(parts)) for parts in (version, bound)]
    assert below is (padded[0] < padded[1])


def test_importing_it_imports_no_torch():
    code = "import sys, rlnb._utils; print('torch' in sys.modules, 'gymnasium' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False False", done.stderr
