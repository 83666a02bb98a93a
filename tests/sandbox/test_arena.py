"""An arena hands tensors over unchanged, and its file cannot be pulled from under its owner."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
import torch

from dlrm_bench.sandbox.arena import ALIGNMENT, Arena, FileArena, MappedArena, SharedFile, room_for, view_of
from dlrm_bench.sandbox.messages import TensorRef

CPU = torch.device("cpu")


@pytest.fixture
def file() -> Iterator[SharedFile]:
    shared = SharedFile()
    yield shared
    shared.close()


def place(arena: Arena, tensor: torch.Tensor) -> TensorRef:
    ref = arena.reserve(tensor.dtype, tuple(tensor.shape))
    arena.view(ref).copy_(tensor)
    return ref


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(10),
        torch.randn(3, 5),
        torch.randn(4, 2).bfloat16(),
        torch.tensor(2.5),
        torch.empty(0, 7),
        torch.randn(4, 6).t(),
        torch.tensor([True, False]),
    ],
    ids=lambda tensor: f"{tensor.dtype}-{tuple(tensor.shape)}",
)
def test_a_tensor_is_the_same_on_the_other_side(file: SharedFile, tensor: torch.Tensor) -> None:
    arena = Arena(CPU, 1 << 16, file)
    ref = place(arena, tensor)
    mapped = MappedArena(FileArena(arena.nbytes), CPU, file.descriptor)
    assert torch.equal(view_of(mapped.memory, ref), tensor)


def test_what_the_other_side_writes_is_seen(file: SharedFile) -> None:
    arena = Arena(CPU, 1 << 16, file)
    ref = arena.reserve(torch.float32, (4,))
    mapped = MappedArena(FileArena(arena.nbytes), CPU, file.descriptor)
    view_of(mapped.memory, ref).fill_(3.0)
    assert arena.view(ref).tolist() == [3.0] * 4


def test_tensors_do_not_overlap(file: SharedFile) -> None:
    arena = Arena(CPU, 1 << 16, file)
    first, second = place(arena, torch.ones(3)), place(arena, torch.zeros(3))
    assert second.offset == first.offset + ALIGNMENT
    assert arena.view(first).tolist() == [1.0] * 3


def test_a_gap_moves_what_comes_next(file: SharedFile) -> None:
    arena = Arena(CPU, 1 << 16, file)
    arena.skip(1000)
    assert place(arena, torch.ones(3)).offset == 1024


def test_an_arena_is_not_overfilled(file: SharedFile) -> None:
    arena = Arena(CPU, 1024, file)
    with pytest.raises(ValueError, match="1024 bytes is too small for 1536"):
        arena.reserve(torch.uint8, (1025,))


def test_room_is_rounded_up() -> None:
    assert [room_for(torch.float32, (count,)) for count in (0, 1, 128, 129)] == [512, 512, 512, 1024]


def test_the_file_grows_and_keeps_what_it_holds(file: SharedFile) -> None:
    ref = place(Arena(CPU, 1024, file), torch.ones(3))
    assert Arena(CPU, 4096, file).view(ref).tolist() == [1.0] * 3


def test_the_file_cannot_shrink(file: SharedFile) -> None:
    file.grow(4096)
    with pytest.raises(PermissionError):
        os.ftruncate(file.descriptor, 10)


@pytest.mark.gpu
@pytest.mark.parametrize("nbytes", [512, (1 << 20) + 512, 2 << 20])
def test_what_a_child_reads_is_read_as_fast_as_the_parent_reads_it(nbytes: int) -> None:
    from dlrm_bench.correctness.bench import Bench
    from dlrm_bench.sandbox.child import Child
    from dlrm_bench.sandbox.limits import Limits
    from dlrm_bench.timing.device import times_of

    gpu = torch.device("cuda", 0)
    given = torch.ones((512 << 20) + nbytes, dtype=torch.uint8, device=gpu)
    with closing(Child(gpu, Limits(memory_bytes=8 << 30))) as child:
        child.load("import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x + 1")
        child.build([], 0, "fp32")
        bench = Bench(child, "default")
        # Once more, since the first block asks the driver for memory.
        there = min(min(bench.time([[given]], 10, hold_cycles=10_000_000).times_us) for _ in range(2))
    assert there < 1.05 * min(times_of(lambda: given + 1, gpu))


@pytest.mark.gpu
def test_a_gpu_block_is_allocated_in_any_thread() -> None:
    from dlrm_bench.sandbox.cuda_memory import CudaBlock

    with ThreadPoolExecutor(1) as thread:
        block = thread.submit(CudaBlock.allocate, 1 << 20, torch.device("cuda", 0)).result()
        thread.submit(block.tensor().fill_, 7).result()
    assert int(block.tensor().sum()) == 7 << 20
    block.free()


@pytest.mark.gpu
def test_a_gpu_block_is_mapped_in_another_process() -> None:
    from dlrm_bench.evaluate import Settings, evaluate
    from dlrm_bench.problems import load_problems
    from dlrm_bench.records import Result
    from dlrm_bench.submissions import baseline

    settings = Settings(torch.device("cuda", 0), "small", "bf16", effort=None)
    result: Result = evaluate(baseline("eager", load_problems()[0]), settings)
    assert result.status == "correct"
