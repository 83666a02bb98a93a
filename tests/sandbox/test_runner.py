"""What the runner keeps and says: outputs as they are, whatever modes, names and words a submission comes with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from dlrm_bench.sandbox.child import Child, SubmissionFailedError

DISPATCH = """
from torch.utils._python_dispatch import TorchDispatchMode
class Lazy(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if READY and ("copy" in str(function) or "clone" in str(function)):
            result.fill_(7.0)
        return result
"""
FUNCTION = """
from torch.overrides import TorchFunctionMode
class Lazy(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        if READY and getattr(function, "__name__", "") in ("copy_", "clone", "view", "__getitem__", "__get__"):
            OUTPUT.data.fill_(7.0)
        return function(*args, **(kwargs or {}))
"""
MODEL = """
import torch
READY = []
{mode}
class ModelNew(torch.nn.Module):
    def forward(self):
        global OUTPUT
        OUTPUT = torch.zeros(4)
        if not READY: Lazy().__enter__()
        READY.append(True)
        return OUTPUT
"""


def outputs(child: Child, source: str) -> list[list[float]]:
    """Return a called and a timed output, as the parent gets them."""
    child.load(source)
    child.build([], 0, "fp32")
    arena = child.arena(1 << 12)
    called, timed = (arena.reserve(torch.float32, (4,)) for _ in range(2))
    child.call([], 0x7F)
    child.fetch(-1, called, as_returned=True)
    child.give([[]])
    child.time(3, 0, 0)
    child.fetch(1, timed)
    return [arena.view(each).tolist() for each in (called, timed)]


@pytest.mark.parametrize("mode", [DISPATCH, FUNCTION], ids=["dispatch", "function"])
def test_a_mode_that_is_left_on_does_not_see_outputs_taken(child: Child, mode: str) -> None:
    assert outputs(child, MODEL.format(mode=mode)) == [[0.0] * 4, [0.0] * 4]


def test_a_name_replaced_in_the_runners_modules_changes_nothing(child: Child) -> None:
    source = """
import sys
import __main__
import torch
from dlrm_bench.sandbox import arena, messages, stopwatch
import dlrm_bench.sandbox.worker as worker
def never(*args, **options): raise RuntimeError("replaced")
for module in (arena, messages, stopwatch, worker, __main__):
    for name in [each for each in vars(module) if not each.startswith("__")]:
        setattr(module, name, never)
for name in ("clone", "copy_", "view", "__getitem__"):
    setattr(torch.Tensor, name, never)
class ModelNew(torch.nn.Module):
    def forward(self): return torch.full((4,), 3.0)
"""
    assert outputs(child, source) == [[3.0] * 4, [3.0] * 4]


def test_times_are_the_runners_own(child: Child) -> None:
    source = """
import sys, time
import torch
class ModelNew(torch.nn.Module):
    def forward(self):
        frame = sys._getframe()
        while frame := frame.f_back:
            for each in [*frame.f_locals.values()]:
                if type(each) is list and each and type(each[0]) in (int, float): each[:] = [0.0] * len(each)
        time.sleep(0.002)
        return torch.zeros(4)
"""
    child.load(source)
    child.build([], 0, "fp32")
    child.give([[]])
    assert all(each > 2000 for each in child.time(5, 0, 0).times_us)


def test_kept_outputs_are_in_a_list(child: Child) -> None:
    source = """
import gc
import torch
class Lazy(list):
    def __getitem__(self, index): return torch.zeros(4)
class ModelNew(torch.nn.Module):
    def forward(self):
        runner = next(each for each in gc.get_objects() if type(each).__name__ == "Runner")
        runner._stopwatch = lambda *block: ([1.0, 1.0, 1.0], Lazy(), 0)
        return torch.zeros(4)
"""
    with pytest.raises(SubmissionFailedError, match="kept in a list"):
        outputs(child, source)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("torch.ones(2)", "Tensor"),
        ("torch.nn.Parameter(torch.ones(2))", "Parameter"),
        ("None", "NoneType"),
        ("type('Tensor', (), {})()", "an object of another class named Tensor"),
        ("torch.ones(2).as_subclass(type('Tensor', (torch.Tensor,), {'__module__': 'torch'}))", "an object of another"),
        ("type('a\\x1b[31mb\\nc', (), {})()", "a [31mb c"),
    ],
)
def test_only_a_plain_tensor_is_called_one(do: Callable[[str], str], value: str, kind: str) -> None:
    found = do(f"output = {value}")
    assert found == kind if kind == "Tensor" else found.startswith(kind)


@pytest.mark.parametrize(
    "statement",
    [
        "raise RuntimeError('\\x1b[2K\\x07\\u202ecorrect\\x1b[0m')",
        "raise type('\\x1b[31m', (Exception,), {})('red')",
        "os.write(1, b'\\x1b[2K\\rcorrect\\x07'); os._exit(1)",
        "send(messages.Failed('crash', 'one\\ntwo\\x1b[0m'))",
        "send(messages.Called('one\\ntwo\\x1b[0m'))",
        "send({'type': '\\x1b[2K\\x07\\r\\n'})",
    ],
    ids=["message", "name", "last words", "forged failure", "forged answer", "garbage"],
)
def test_what_it_says_is_printable(child: Child, statement: str) -> None:
    source = f"""
import os, socket, sys, time
import torch
from dlrm_bench.sandbox import messages
def send(message):
    messages.Channel(socket.socket(fileno=os.dup(int(sys.argv[1])))).send(message)
    time.sleep(1)
class ModelNew(torch.nn.Module):
    def forward(self): {statement}
"""
    child.load(source)
    child.build([], 0, "fp32")
    said: Any
    try:
        said = child.call([], 0).kind
    except SubmissionFailedError as error:
        said = error.message
    assert said.isprintable()
    assert len(said) > 5


def test_a_message_has_an_end(child: Child) -> None:
    child.load("class ModelNew:\n    def __init__(self): raise RuntimeError('x' * 1_000_000)\n")
    with pytest.raises(SubmissionFailedError) as caught:
        child.build([], 0, "fp32")
    assert len(caught.value.message) <= 1500
