"""The joiner of ES modules and the self-contained page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest
from rlnb_widgets._core.esm import bundle_css, bundle_js
from rlnb_widgets._core.page import page


@pytest.fixture
def write(tmp_path):
    def write(**files):
        for name, text in files.items():
            (tmp_path / f"{name}.js").write_text(text)
        return tmp_path / "main.js"

    return write


def _run(module: str, missing) -> str:
    node = shutil.which("node")
    if node is None:
        missing("node", "no `node` on the PATH; install Node.js 20 or newer")
    code = module.replace("export default ", "const result = ") + "\nconsole.log(JSON.stringify(result));"
    done = subprocess.run([node, "--input-type=module", "-e", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_joined_modules_run_and_keep_their_own_names(write, missing):
    entry = write(
        a="const secret = 1;\nexport function one() {\n  return secret;\n}\n",
        b=('import { one } from "./a.js";\nconst secret = 2;\nexport const two = secret * one();\nexport class K {}\n'),
        all='export { one } from "./a.js";\nexport { two as zwei, K } from "./b.js";\n',
        main='import {\n  one,\n  zwei as deux,\n} from "./all.js";\nconst secret = 3;\n'
        "export default [one(), deux, secret];\n",
    )
    text = bundle_js(entry)
    assert not re.search(r"^import", text, re.MULTILINE)
    assert text.count("function one()") == 1
    assert _run(text, missing) == [1, 2, 3]


@pytest.mark.parametrize(
    "line", ['import * as x from "./a.js";', 'import x from "./a.js";', "export { a };", 'export * from "./a.js";']
)
def test_other_forms_are_refused(write, line):
    entry = write(a="export const a = 1;\n", main=f"{line}\nexport default 1;\n")
    with pytest.raises(ValueError, match=r"^main\.js: cannot join `"):
        bundle_js(entry)


def test_comments_and_indentation_stay_in_the_files(write, missing):
    source = (
        "// A line.\n\n/** A block\n * of lines. */\nexport default [\n  // inside\n"
        '  /* before */ "// text",\n  /* alone */\n  `/* text */`, // after\n];\n'
    )
    text = bundle_js(write(main=source))
    assert not any(words in text for words in ("A line", "A block", "of lines", "inside", "alone", "\n ", "\n\n"))
    assert _run(text, missing) == ["// text", "/* text */"]


def test_template_literals_of_several_lines_are_refused(write):
    entry = write(main="export default `one\n  two ${`three`}`;\n")
    with pytest.raises(ValueError, match=r"^main\.js: cannot join `export default `one`; end a template literal"):
        bundle_js(entry)


def test_circles_are_refused(write):
    entry = write(
        a='import { b } from "./b.js";\nexport const a = b;\n',
        b='import { a } from "./a.js";\nexport const b = a;\n',
        main='import { a } from "./a.js";\nexport default a;\n',
    )
    with pytest.raises(ValueError, match=r"^circular import: main\.js -> a\.js -> b\.js -> a\.js$"):
        bundle_js(entry)


def test_a_widget_needs_a_default_export(write):
    with pytest.raises(ValueError, match=r"^main\.js has no `export default`"):
        bundle_js(write(main="export const a = 1;\n"))


def test_css_is_variables_then_core_then_own(tmp_path):
    own = tmp_path / "own.css"
    own.write_text(".mine { color: red; }")
    css = bundle_css(own)
    assert css.index("--rlnb-ink") < css.index(".rlnb-button") < css.index(".mine")
    assert "http" not in css.replace("http://www.w3.org", "")


def test_page_is_closed_against_its_data():
    state = {"key": "</script><script>alert(1)</script><!--", "raw": b"\x00\xff"}
    text = page("<T>", "const a = 1;\nexport default () => a;\n", "b{}", state, "<img>")
    assert "<title>&lt;T&gt;</title>" in text
    assert text.count("<script") == text.count("</script>") == 2
    found = re.search(r'id="rlnb-state">(.*?)</script>', text)
    assert json.loads(found[1]) == {"key": state["key"], "raw": {"__bytes__": "AP8="}}
    assert "default-src 'none'" in text
    assert "export default" not in text


def test_page_refuses_what_json_cannot_hold():
    with pytest.raises(TypeError, match=r"^a trait of type object cannot be written into a page\.$"):
        page("T", "export default 1;", "", {"x": object()}, "")
    with pytest.raises(ValueError, match=r"^the module must end in"):
        page("T", "const a = 1;", "", {}, "")
