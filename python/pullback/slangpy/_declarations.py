"""Declarations of a text, in its order: names, words before them, attributes and members.

The compiler says what types and functions are; the order, the attributes and modifiers are in the text alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Optional

_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:\\\n|[^\n])*|(?P<token>"(?:\\.|[^"\\])*"|[\w.]*\d[\w.]*|\$?\w+|::|->|[^\s\w])""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
_WORD = re.compile(r"[A-Za-z_$]\w*$")
_SKIPPED = {"module", "import", "implementing", "__include", "using", "__exported", "typedef", "typealias", "syntax"}
_MODIFIERS = {
    "public", "internal", "private", "static", "const", "uniform", "extern", "export", "groupshared", "inline", "no_diff",
    "override", "in", "out", "inout", "shared", "var", "let", "func", "row_major", "column_major", "precise", "volatile",
}  # fmt: skip
_NESTED = {"struct": "struct", "class": "struct", "interface": "struct", "enum": "enum", "namespace": "namespace"}
_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}


@dataclass
class Declared:
    """A declaration. `kind` is struct, func, variable, enum, namespace or generic."""

    kind: str
    name: str
    words: set[str] = field(default_factory=set)
    attributes: list[tuple[str, list[str]]] = field(default_factory=list)
    type: str = ""
    children: list[Declared] = field(default_factory=list)


def declarations(text: str) -> list[Declared]:
    """All declarations of a text."""
    return _Reader([found["token"] for found in _TOKEN.finditer(text) if found["token"]]).block()


class _Reader:
    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1] if self._at <= len(self._tokens) else ""

    def _group(self) -> list[str]:
        """What is between the bracket that comes next and the one that closes it."""
        opening = self._take()
        closing, depth, start = _CLOSING[opening], 1, self._at
        while depth and self._peek():
            token = self._take()
            depth += (token == opening) - (token == closing)
        return list(self._tokens[start : self._at - 1])

    def _skip_past(self, *ends: str) -> None:
        """Goes behind the first of these tokens; a body in braces is an end of itself."""
        while token := self._peek():
            if token == "{":
                self._group()
                if "{" in ends:
                    return
            elif token in ("(", "["):
                self._group()
            elif self._take() in ends:
                return

    def block(self) -> list[Declared]:
        """Declarations up to the end."""
        found: list[Declared] = []
        while self._peek():
            if self._peek() in (";", "}"):
                self._take()
            else:
                found += self._declaration()
        return found

    def _declaration(self) -> list[Declared]:
        attributes: list[tuple[str, list[str]]] = []
        words: set[str] = set()
        while True:
            if self._peek() == "[":
                attributes += _attributes(self._group())
            elif self._peek() == "__generic":
                self._take()
                self._group()
            elif self._peek() in _MODIFIERS:
                words.add(self._take())
            else:
                break
        first = self._peek()
        if first in _SKIPPED:
            self._skip_past(";")
            return []
        if first in _NESTED and self._tokens[self._at + 1 : self._at + 2]:
            self._take()
            return [self._nested(_NESTED[first], words, attributes)]
        if first in ("cbuffer", "tbuffer"):
            self._take()
            return [self._nested("variable", words, attributes)]
        if first in ("extension", "property", "associatedtype", "__subscript"):
            self._skip_past(";", "{")
            return []
        return self._function_or_variables(words, attributes)

    def _nested(self, kind: str, words: set[str], attributes: list[tuple[str, list[str]]]) -> Declared:
        name = self._take()
        generic = self._peek() == "<"
        while self._peek() not in ("{", ";", ""):
            self._group() if self._peek() in _CLOSING else self._take()
        body = self._group() if self._peek() == "{" else []
        children = [] if kind in ("enum", "variable") else _Reader(body).block()
        return Declared("generic" if generic else kind, name, words, attributes, children=children)

    def _function_or_variables(self, words: set[str], attributes: list[tuple[str, list[str]]]) -> list[Declared]:
        head: list[str] = []
        generic = False
        while (token := self._peek()) not in ("(", "=", ":", ";", "{", ",", ""):
            if token == "operator":
                head.append(self._take())
                while self._peek() and (self._peek() != "(" or head[-1] == "operator"):
                    head[-1] += self._take()
            elif token in ("<", "["):
                closing = _CLOSING[token]
                inner = self._group()
                after_name = token == "<" and self._peek() == "("
                generic = generic or after_name
                head += [] if after_name else [token, *inner, closing]
            else:
                head.append(self._take())
        if self._peek() == "(":
            self._group()
            self._skip_past(";", "{")
            name = "$init" if head == ["__init"] else head[-1] if head else ""
            return [Declared("generic" if generic else "func", name, words, attributes)] if name else []
        return self._variables(head, words, attributes)

    def _variables(self, head: list[str], words: set[str], attributes: list[tuple[str, list[str]]]) -> list[Declared]:
        found: list[Declared] = []
        kind, name, suffix = _split(head)
        while name:
            found.append(Declared("variable", name, words, attributes, "".join([*kind, *suffix])))
            while self._peek() not in (";", ",", ""):
                self._group() if self._peek() in ("(", "[", "{") else self._take()
            if self._take() != ",":
                return found
            rest: list[str] = []
            while self._peek() not in (";", ",", "=", ":", ""):
                rest.append(self._take())
            _, name, suffix = _split(["", *rest])
        self._skip_past(";", "{")
        return found


def _split(head: list[str]) -> tuple[list[str], str, list[str]]:
    """A type, a name, and the lengths of arrays behind the name."""
    end = len(head)
    while end and head[end - 1] == "]":
        while end and head[end - 1] != "[":
            end -= 1
        end -= 1
    if end < 2 or not _WORD.match(head[end - 1]):
        return [], "", []
    return head[: end - 1], head[end - 1], head[end:]


def _attributes(tokens: list[str]) -> list[tuple[str, list[str]]]:
    """Names with arguments: of `[A, B(1, 2)]` and `[[A]]`."""
    found: list[tuple[str, list[str]]] = []
    at = 0
    while at < len(tokens):
        name, at = tokens[at], at + 1
        if not _WORD.match(name):
            continue
        args: list[str] = []
        if tokens[at : at + 1] == ["("]:
            depth = 0
            while at < len(tokens):
                token = tokens[at]
                at += 1
                depth += (token == "(") - (token == ")")
                if not depth:
                    break
                if token == "," and depth == 1:
                    args.append("")
                elif depth > 1 or token != "(":
                    args = args or [""]
                    args[-1] += token
        found.append((name, args))
    return found


def declared_at(all: Sequence[Declared], path: Sequence[str]) -> list[Declared]:
    """The declarations of a name in a type or namespace, or at the top."""
    *front, last = path
    for name in front:
        inner: Optional[Declared] = next((d for d in all if d.name == name and d.children), None)
        if inner is None:
            return []
        all = inner.children
    return [d for d in all if d.name == last]
