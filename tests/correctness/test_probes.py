"""Each probe finds what it is for, and lets an honest kernel pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
import torch

from dlrm_bench.correctness.bench import Bench
from dlrm_bench.correctness.oracle import Oracle, Trial
from dlrm_bench.correctness.probes import PROBES, Probe, counted, overwritten, owned, renewed, repeated, unwritten
from dlrm_bench.problems import ProblemSet
from dlrm_bench.records import Reason
from dlrm_bench.sandbox.child import Child
from dlrm_bench.sandbox.limits import Limits

HEAD = """
import threading, time
import torch
from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, rows, dim, weight_scale):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim) * weight_scale)
        self.seen, self.calls, self.held = {}, 0, None

    def right(self, indices, offsets):
        return F.embedding_bag(indices, self.weight, offsets, mode="sum", include_last_offset=True)

    def forward(self, indices, offsets):
"""
HONEST = "return self.right(indices, offsets)"
WRONG: dict[str, tuple[Probe, str, str]] = {
    "leaves the last row": (
        unwritten,
        "output = torch.empty(64, 32)\noutput[:-1] = self.right(indices, offsets)[:-1]\nreturn output",
        "not_written",
    ),
    "returns one buffer": (
        overwritten,
        "if self.held is None: self.held = torch.empty(64, 32)\nreturn self.held.copy_(self.right(indices, offsets))",
        "output_aliased",
    ),
    "finishes later": (
        overwritten,
        "output = self.right(indices, offsets)\n"
        "threading.Thread(target=lambda: (time.sleep(0.02), output.add_(1))).start()\nreturn output",
        "output_aliased",
    ),
    "returns three buffers in turn": (
        counted,
        "self.held = self.held or [torch.empty(64, 32) for _ in range(3)]\n"
        "self.held.append(self.held.pop(0))\nreturn self.held[-1].copy_(self.right(indices, offsets))",
        "wrong_while_timed",
    ),
    "sorts its input while it is timed": (
        counted,
        "output = self.right(indices, offsets)\nself.calls += 1\n"
        "if self.calls > 3: indices.copy_(indices.sort().values)\nreturn output",
        "input_changed",
    ),
    "wrong from the tenth call": (
        counted,
        "self.calls += 1\nreturn self.right(indices, offsets) * (self.calls < 10)",
        "wrong_while_timed",
    ),
    "adds up over calls": (
        repeated,
        "output = self.right(indices, offsets)\nself.calls += 1\nreturn output * self.calls",
        "not_repeatable",
    ),
    "right at one address only": (
        repeated,
        "self.held = self.held or indices.data_ptr()\n"
        "return self.right(indices, offsets) * (indices.data_ptr() == self.held)",
        "not_repeatable",
    ),
}


@contextmanager
def bench_of(problems: ProblemSet, body: str) -> Iterator[tuple[Bench, list[Trial]]]:
    source = HEAD + "".join(f"        {line}\n" for line in body.splitlines())
    with closing(Child(torch.device("cpu"), Limits())) as child:
        child.load(source)
        bench = Bench(child, "default")
        oracle = Oracle(problems[0], "small", "default", "fp32", torch.device("cpu"))
        bench.build(oracle, 1, "fp32")
        yield bench, [oracle.trial(seed) for seed in range(3)]


@pytest.fixture(scope="module")
def probe_honest(problems: ProblemSet) -> Iterator[Callable[[Probe], list[Reason]]]:
    with bench_of(problems, HONEST) as (bench, trials):
        yield lambda probe: probe(bench, trials)


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.__name__)
def test_an_honest_kernel_passes(probe: Probe, probe_honest: Callable[[Probe], list[Reason]]) -> None:
    assert probe_honest(probe) == []


@pytest.mark.parametrize("name", WRONG)
def test_a_probe_finds_what_it_is_for(problems: ProblemSet, name: str) -> None:
    probe, body, expected = WRONG[name]
    with bench_of(problems, body) as (bench, trials):
        found = probe(bench, trials)
    assert [reason.reason for reason in found] == [expected]


def test_an_output_that_is_its_input_is_found(problems: ProblemSet) -> None:
    problem, cpu = problems.find("KeyedJaggedPermute"), torch.device("cpu")
    source = "from torch import nn\n\nclass ModelNew(nn.Module):\n    def forward(self, *inputs): return inputs[2]"
    with closing(Child(cpu, Limits())) as child:
        child.load(source)
        bench, oracle = Bench(child, "one_key"), Oracle(problem, "small", "one_key", "fp32", cpu)
        bench.build(oracle, 1, "fp32")
        trial = oracle.trial(0)
        assert bench.call(trial).reasons == []
        [reason] = owned(bench, [trial])
    assert reason.reason == "output_aliased"


ADAGRAD = """

class ModelNew(Model):
    made = None

    def forward(self, *inputs):
"""


@pytest.mark.parametrize(
    ("body", "stale"),
    [
        ("return super().forward(*inputs)", False),
        # The weights are where they were, so that who holds them, as a CUDA graph does, holds the new ones.
        ("self.made = self.made or [each.detach() for each in self.state_dict().values()]\n"
         "assert all(torch.equal(*pair) for pair in zip(self.made, self.state_dict().values()))\n"
         "return super().forward(*inputs)", False),
        ("self.register_buffer('room', torch.empty(3))\nreturn super().forward(*inputs)", False),
        ("if self.made is None: self.made = self.weight.detach().clone()\n"
         "own, self.weight.data = self.weight.data, self.made\n"
         "output = super().forward(*inputs)\nself.weight.data = own\nreturn output", True),
        ("if self.made is None: self.made = self.momentum.clone()\n"
         "own, self.momentum = self.momentum, self.made\n"
         "output = super().forward(*inputs)\nself.momentum = own\nreturn output", True),
    ],
    ids=["reads", "holds", "makes room", "keeps a parameter", "keeps a buffer"],
)  # fmt: skip
def test_weights_that_were_kept_are_found_where_they_must_be_read(problems: ProblemSet, body: str, stale: bool) -> None:
    problem, cpu = problems.find("EmbeddingBagRowwiseAdagrad"), torch.device("cpu")
    source = problem.code + ADAGRAD + "".join(f"        {line}\n" for line in body.splitlines())
    with closing(Child(cpu, Limits())) as child:
        child.load(source)
        bench, oracle = Bench(child, "default"), Oracle(problem, "small", "default", "fp32", cpu)
        assert not oracle.may_cache_weights
        bench.build(oracle, 1, "fp32")
        assert bench.call(oracle.trial(1)).reasons == []
        bench.renew(oracle, 2, "fp32")
        found = renewed(bench, oracle.trial(2))
    assert [reason.reason for reason in found] == ["stale_weights"] * stale


def test_a_model_that_is_no_module_has_no_weights_to_renew(problems: ProblemSet) -> None:
    problem, cpu = problems.find("JaggedToPadded"), torch.device("cpu")
    source = problem.code + (
        "\n\nclass ModelNew:\n    def __init__(self, *sizes): self.right = Model(*sizes)\n"
        "    def to(self, device, dtype): return self\n    def __call__(self, *inputs): return self.right(*inputs)\n"
    )
    with closing(Child(cpu, Limits())) as child:
        child.load(source)
        bench, oracle = Bench(child, "default"), Oracle(problem, "small", "default", "fp32", cpu)
        bench.build(oracle, 1, "fp32")
        bench.renew(oracle, 2, "fp32")
        assert renewed(bench, oracle.trial(2)) == []


def test_the_share_that_was_not_written_is_said(problems: ProblemSet) -> None:
    probe, body, _ = WRONG["leaves the last row"]
    with bench_of(problems, body) as (bench, trials):
        [reason] = probe(bench, trials)
    assert reason.value == 1 / 64
    assert reason.message.startswith("1.56% of the output was never written")
