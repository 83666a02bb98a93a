"""A digest is the same for the same bits, in whatever memory, and another for others."""

from __future__ import annotations

import pytest
import torch

from dlrm_bench.sandbox.digest import digests

OUTPUTS = [
    torch.randn(8, 16),
    torch.randn(3, 5).bfloat16(),
    torch.randn(7).half(),
    torch.tensor(2.5),
    torch.tensor([True, False, True]),
    torch.randint(-(2**62), 2**62, (9,)),
    torch.randn(6, 4).t(),
    torch.full((4,), float("nan")),
    torch.randn(4, 4, dtype=torch.complex64),
]


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda output: f"{output.dtype}-{tuple(output.shape)}")
def test_the_same_bits_have_the_same_digest(output: torch.Tensor) -> None:
    shifted = torch.empty(output.numel() + 1, dtype=output.dtype)[1:].reshape(output.shape).copy_(output)
    assert digests([output]) == digests([output.contiguous()]) == digests([output.clone()]) == digests([shifted])


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda output: f"{output.dtype}-{tuple(output.shape)}")
def test_one_bit_makes_another(output: torch.Tensor) -> None:
    other = output.clone().contiguous()
    other.reshape(-1).view(torch.uint8)[-1] ^= 1
    assert digests([output]) != digests([other])


def test_each_output_has_its_own_and_nothing_has_none() -> None:
    first, second = torch.ones(4), torch.zeros(4)
    assert digests([first, second]) == [*digests([first]), *digests([second])]
    assert digests([]) == []
    assert digests([torch.empty(0, 3)]) == [0]


def test_sums_wrap_around() -> None:
    assert digests([torch.full((2,), 2**63 - 1)]) == [-2]
