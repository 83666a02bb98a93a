"""Time calls inside the child.

All that the loops need lies in variables that no other code has a name for, bound before any submission is imported:
replacing `torch.cuda.Event` or `time.perf_counter_ns` later changes nothing, and while calls are running neither their
times nor their outputs are in a list that has a name. Python lets a patient submission reach even those, through the
frames above its own or the garbage collector: the parent trusts no time alone.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

import torch

ROOM = 1.1
"""Memory held for a block, of what the block before it took."""
PERSISTING_L2_CACHE_SIZE = 6
"""CU_LIMIT_PERSISTING_L2_CACHE_SIZE of the driver's cuCtxSetLimit."""

Model = Callable[..., Any]
Sets = Sequence[Sequence[Any]]
Block = Callable[[Model, Sets, int, int, int], tuple[list[float], list[Any], int]]
"""Calls a model a number of times over argument sets in turn.

Takes the model, the sets, the number of calls, the bytes of the buffer that is overwritten before each call to empty
the L2 (0 for none), and the cycles that a GPU is kept busy first, so that the host has queued the calls before they run
and no launch is measured as kernel time. Returns the microseconds of each call, what each returned, and at how many the
host was too late for that.
"""


def stopwatch(device: torch.device) -> Block:
    """Return what times blocks of calls on a device."""
    return _cuda_stopwatch(device) if device.type == "cuda" else _cpu_stopwatch()


def _cpu_stopwatch() -> Block:
    clock, each_of, as_list, numbers = perf_counter_ns, map, list, range

    def block(
        call: Model, sets: Sets, calls: int, flush_bytes: int, hold_cycles: int
    ) -> tuple[list[float], list[Any], int]:
        def timed(i: int) -> tuple[int, Any]:
            arguments = sets[i % count]
            start = clock()
            output = call(*arguments)
            return clock() - start, output

        count = len(sets)
        done = as_list(each_of(timed, numbers(calls)))
        return [nanoseconds / 1e3 for nanoseconds, _ in done], [output for _, output in done], 0

    return block


def _cuda_stopwatch(device: torch.device) -> Block:
    each_of, as_list, numbers, both, total = map, list, range, zip, sum
    event: Any = torch.cuda.Event
    sleep: Any = torch.cuda._sleep
    synchronize = torch.cuda.synchronize
    empty, zero = torch.empty, torch.Tensor.zero_
    make_room, note_peak = _room_keeper(device)
    flush_reaches_all = _persisting_ender()
    held: torch.Tensor | None = None

    def flush_buffer(nbytes: int) -> torch.Tensor | None:
        nonlocal held
        if nbytes and (held is None or held.numel() != nbytes):
            held = empty(nbytes, dtype=torch.uint8, device=device)
        return held if nbytes else None

    def block(
        call: Model, sets: Sets, calls: int, flush_bytes: int, hold_cycles: int
    ) -> tuple[list[float], list[Any], int]:
        def timed(i: int, start: Any, end: Any) -> tuple[Any, bool]:
            arguments = sets[i % count]
            if flush is not None:
                zero(flush)
            start.record()
            output = call(*arguments)
            end.record()
            return output, start.query()

        flush, count = flush_buffer(flush_bytes), len(sets)
        starts, ends = ([event(enable_timing=True) for _ in numbers(calls)] for _ in numbers(2))
        make_room(calls)
        flush_reaches_all()
        synchronize(device)
        if hold_cycles:
            sleep(hold_cycles)
        done = as_list(each_of(timed, numbers(calls), starts, ends))
        synchronize(device)
        note_peak(calls)
        times = [start.elapsed_time(end) * 1e3 for start, end in both(starts, ends)]
        return times, [output for output, _ in done], total(late for _, late in done)

    return block


def _persisting_ender() -> Callable[[], None]:
    """Return what takes back the part of the L2 that a process has set aside for lines of its own.

    No flush reaches those lines. A device that knows no such part refuses the calls, and nothing is lost by it.
    """
    driver = ctypes.CDLL("libcuda.so.1")
    reset, set_limit = driver.cuCtxResetPersistingL2Cache, driver.cuCtxSetLimit
    limit, none = PERSISTING_L2_CACHE_SIZE, ctypes.c_size_t(0)

    def end() -> None:
        reset()
        set_limit(limit, none)

    return end


def _room_keeper(device: torch.device) -> tuple[Callable[[int], None], Callable[[int], None]]:
    """Return what makes torch hold enough free memory before a block, and what is told of the block's end.

    Outputs of a block are kept, and their sizes differ from block to block. Where none of the pieces that torch holds
    fits, it asks the driver, which takes milliseconds of host and GPU while work is queued. One large piece fits all.
    """
    allocated, peak, forget_peak = (
        torch.cuda.memory_allocated,
        torch.cuda.max_memory_allocated,
        torch.cuda.reset_peak_memory_stats,
    )
    empty, give_back, unless, none_left = (
        torch.empty,
        torch.cuda.empty_cache,
        contextlib.suppress,
        torch.OutOfMemoryError,
    )
    room, whole, before, call_bytes, held_bytes = ROOM, int, 0, 0.0, 0

    def make_room(calls: int) -> None:
        nonlocal before, held_bytes
        wanted = whole(room * call_bytes * calls)
        if wanted > held_bytes:
            give_back()
            with unless(none_left):
                empty(wanted, dtype=torch.uint8, device=device)
                held_bytes = wanted
        forget_peak(device)
        before = allocated(device)

    def note_peak(calls: int) -> None:
        nonlocal call_bytes
        call_bytes = (peak(device) - before) / calls

    return make_room, note_peak
