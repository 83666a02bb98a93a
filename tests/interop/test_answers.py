"""The code is found in whatever shape an answer has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlrm_bench.interop.answers import defines_model, extract_code

CODE = """import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x * 2
"""
OTHER = CODE.replace("x * 2", "x * 3")
HELPER = "import triton\n\n\n@triton.jit\ndef kernel(x):\n    pass\n"
BROKEN = CODE.replace("return x * 2", "return (x *")
FOUND = {
    "a block": f"Here it is:\n\n```python\n{CODE}```\nIt doubles.",
    "no language": f"```\n{CODE}```",
    "another language tag": f"``` py title=kernel.py\n{CODE}```",
    "an upper-case tag": f"```Python3\n{CODE}```",
    "tildes": f"~~~python\n{CODE}~~~",
    "a longer fence around a shorter": f"````python\n{CODE}\nNOTE = '''\n```\n'''\n````",
    "windows line ends": f"```python\n{CODE}```".replace("\n", "\r\n"),
    "an unclosed fence": f"Sure.\n```python\n{CODE}",
    "a fence in a list": "1. The kernel:\n" + "".join(f"   {line}\n" for line in f"```python\n{CODE}```".splitlines()),
    "the last of several": f"First try:\n```python\n{OTHER}```\nBetter:\n```python\n{CODE}```",
    "not the helper behind it": f"```python\n{CODE}```\nRun it:\n```bash\npython kernel.py\n```",
    "not the helper before it": f"```python\n{HELPER}```\nand\n```python\n{CODE}```",
    "the whole one before the broken one": f"```python\n{CODE}```\n```python\n{BROKEN}```",
    "no fence": CODE,
    "no fence, but prose": f"Here is the kernel.\n\n{CODE}\nThis doubles the input, it's simple.",
    "thinking": f"<think>Maybe\n```python\n{OTHER}```\n</think>\n```python\n{CODE}```",
    "thinking that was never opened": f"Maybe\n```python\n{OTHER}```\n</think>\n\n```python\n{CODE}```",
    "another tag": f"<reasoning>```python\n{OTHER}```</reasoning>\n```python\n{CODE}```",
    "thinking twice": f"<think>a</think>\n<think>\n```python\n{OTHER}```</think>\n```python\n{CODE}```",
}


@pytest.mark.parametrize("answer", FOUND.values(), ids=FOUND)
def test_it_finds_the_model(answer: str) -> None:
    found = extract_code(answer)
    assert found.startswith(CODE)
    assert "return x * 3" not in found
    assert "This doubles" not in found


NOTHING = {
    "": "",
    "I cannot do that.": "",
    f"<think>\n```python\n{CODE}```": "",
    "```python\n```": "",
    f"```python\n{HELPER}```": HELPER,
    f"```python\n{BROKEN}```": BROKEN,
    "    class ModelNew: indented, in prose": "",
}


@pytest.mark.parametrize(("answer", "code"), NOTHING.items(), ids=lambda each: repr(each)[:30])
def test_it_makes_nothing_up(answer: str, code: str) -> None:
    assert extract_code(answer) == code


def test_a_kernel_that_is_deep_or_holds_a_null_byte_is_still_text() -> None:
    for body in ("(" * 5000, "\0", '"\\d"'):
        assert body in extract_code(f"```python\n{CODE}x = {body}\n```")


@given(st.lists(st.sampled_from(["```python\n", "```\n", "<think>", "</think>", CODE, HELPER, "prose\n", "~~~\n"])))
def test_any_answer_gives_text(parts: list[str]) -> None:
    code = extract_code("".join(parts))
    assert code == "" or code.endswith("\n")
    assert not defines_model(code) or CODE in "".join(parts)
