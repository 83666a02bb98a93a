"""The code in a model's answer."""

from __future__ import annotations

import ast
import re
import textwrap
import warnings

_THINKING = ("think", "thinking", "thought", "reasoning", "reflection")
_THOUGHT = re.compile(rf"<({'|'.join(_THINKING)})>.*?(</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_ENDED_THOUGHT = re.compile(rf"\A.*</({'|'.join(_THINKING)})>", re.DOTALL | re.IGNORECASE)
_OPENING = re.compile(r"\s*(?P<mark>`{3,}|~{3,})\s*(?P<language>[^\s`]*)[^`]*")
_DEFINES = re.compile(r"^class\s+ModelNew\b", re.MULTILINE)
_BEGINS = re.compile(r"(import|from|class|def)\s+\w|@\w|\"\"\"|'''|#")
MOST_PROSE_LINES = 200
"""Lines of prose behind code without a fence that are tried to be left out."""


def extract_code(answer: str) -> str:
    r"""Return the code that an answer gives.

    What stands in thinking tags is no answer, be they unclosed, or closed and never opened, as some chat templates
    leave them. Of the fenced blocks the last that defines `ModelNew` counts, one that parses before one that does not;
    the end of the answer closes a fence that was left open. Without such a block the answer itself may be the code,
    with or without prose around it. If nothing defines `ModelNew`, the last block is returned, or nothing.

    Args:
        answer: the text as it came.

    Returns:
        Python source that ends in a line end, or an empty string.
    """
    text = _THOUGHT.sub("", answer)
    text = _ENDED_THOUGHT.sub("", text)
    blocks = _fenced(text)
    defining = [block for block in blocks if defines_model(block)]
    whole = [block for block in defining if _parses(block)]
    found = (whole or defining or ([] if blocks else _unfenced(text)) or blocks or [""])[-1]
    return found.strip("\n") + "\n" if found.strip() else ""


def defines_model(code: str) -> bool:
    """Return whether a text has a class `ModelNew` at its outermost level."""
    return _DEFINES.search(code) is not None


def _fenced(text: str) -> list[str]:
    blocks: list[str] = []
    mark = ""
    inside: list[str] = []
    for line in text.splitlines():
        if not mark:
            opening = _OPENING.fullmatch(line)
            mark, inside = (opening["mark"], []) if opening else ("", [])
        elif line.strip().startswith(mark) and not line.strip().strip(mark[0]):
            blocks.append(_dedented(inside))
            mark = ""
        else:
            inside.append(line)
    return [*blocks, _dedented(inside)] if mark else blocks


def _dedented(lines: list[str]) -> str:
    return textwrap.dedent("\n".join(lines))


def _unfenced(text: str) -> list[str]:
    """Return the code in a text without fences: from the first line like code on, less the prose behind it."""
    if not defines_model(text):
        return []
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if _BEGINS.match(line))
    lines = lines[first:]
    for last in range(len(lines), max(0, len(lines) - MOST_PROSE_LINES), -1):
        code = "\n".join(lines[:last])
        if not defines_model(code):
            break
        if _parses(code):
            return [code]
    return ["\n".join(lines)]


def _parses(code: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True
