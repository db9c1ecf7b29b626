"""The Python of the documents: the blocks of a page run one after the other, in a folder with the files that the page has.

A comment at the end of a statement is its value, or what it prints: `f(2.0)   # 4.0`. Numbers may differ in the last digits.
"""

import ast
import contextlib
import io
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "python/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\S+) ?(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
NUMBER = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")


def blocks(page):
    """The language, the name and the text of each block, and its line."""
    text = page.read_text()
    return [(*block.groups(), text[: block.start()].count("\n") + 1) for block in BLOCK.finditer(text)]


def programs(page):
    """The blocks of Python that are this project's: those of other tools are marked."""
    return [(text, line) for language, words, text, line in blocks(page) if language == "python" and not words]


def agree(seen, expected):
    """Whether two texts are the same but for spaces and the last digits of numbers."""
    seen = re.sub(r"np\.\w+\(([^()]*)\)", r"\1", seen)
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in (seen, expected)]
    rest = ["".join(NUMBER.sub("0", text).replace(",", "").split()) for text in (seen, expected)]
    return rest[0] == rest[1] and numbers[0] == pytest.approx(numbers[1], rel=1e-4, abs=1e-6)


def run(text, line, page, names):
    """Runs the statements of a block, and compares what they give with their comments."""
    lines = text.splitlines()
    for statement in ast.parse(text).body:
        last = lines[statement.end_lineno - 1][statement.end_col_offset :]
        expected = last.partition("#")[2].strip()
        printed = io.StringIO()
        value = None
        with contextlib.redirect_stdout(printed):
            if isinstance(statement, ast.Expr):
                code = compile(ast.Expression(statement.value), str(page), "eval")
                value = eval(code, names)
            else:
                exec(compile(ast.Module([statement], []), str(page), "exec"), names)
        seen = printed.getvalue() or ("" if value is None else str(value))
        if not expected and isinstance(statement, ast.Try | ast.With | ast.For):
            inner = [lines[i].partition("  #")[2].strip() for i in range(statement.lineno - 1, statement.end_lineno)]
            expected = " ".join(text for text in inner if text)
        if expected:
            assert agree(seen, expected), f"{page}:{line + statement.lineno}: {seen.strip()} is not {expected}"


def needed(page):
    """The packages that the page imports, besides this one and NumPy."""
    imported = {name for text, _ in programs(page) for name in re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE)}
    return imported & {"torch", "jax"}


@pytest.mark.parametrize("page", [page for page in PAGES if programs(page)], ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run(page, tmp_path, monkeypatch):
    if "torch" in needed(page):
        pytest.importorskip("torch")
    if "jax" in needed(page):
        pytest.importorskip("jax")
    monkeypatch.chdir(tmp_path)
    for language, name, text, _ in blocks(page):
        if name and "=" not in name and name != "theirs":
            (tmp_path / name).write_text(text)
    names = {"__name__": "__main__"}
    for text, line in programs(page):
        run(text, line, page, names)


def test_a_wrong_value_is_found(tmp_path):
    with pytest.raises(AssertionError, match="2.5 is not 2.4"):
        run("x = 2.5\nx  # 2.4\n", 1, tmp_path, {})
    run("x = 2.5\nx  # 2.50001\nprint(x)  # 2.5\n", 1, tmp_path, {})
