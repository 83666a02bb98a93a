"""What a model is told: the problem, the rules, and, where asked for, the GPU, an example, or its last try."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from string import Template as Text
from typing import TYPE_CHECKING, Any

import msgspec

from dlrm_bench.errors import CannotRunError, UsageError
from dlrm_bench.problems import Problem
from dlrm_bench.records import Comparison, Hardware, Language, Message, Plan, Precision, Result

if TYPE_CHECKING:
    import torch

_FOLDER = Path(__file__).parent / "templates"
_DTYPES: dict[Precision, str] = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_LANGUAGES: dict[Language, str] = {"triton": "Triton", "cuda": "CUDA C++"}
_TOOLCHAINS: dict[Language, str] = {
    "triton": "Python, torch and triton are installed.",
    "cuda": "Compile CUDA source with torch.utils.cpp_extension.load_inline when the file is imported.",
}
_CACHED = "It may keep a transformed copy of the weights, made from them once."
_NOT_CACHED = "It reads the weights anew in each call."
_BOUNDS = {"memory": "memory traffic", "matrix": "matrix products"}
MOST_REASONS = 4
"""Reasons of a verdict that a model is told."""


def write_prompt(problem: Problem, plan: Plan, last: tuple[str, Result] | None = None) -> list[Message]:
    """Return what a model is told of a problem.

    Args:
        problem: which problem.
        plan: which template, language, precision and hardware.
        last: code and result of its last try, if it had one.
    """
    more = []
    if plan.hardware is not None:
        more.append(_hardware(plan.hardware, problem))
    if plan.template == "example":
        example = {"problem": _read("toy_problem.py"), "answer": _read(f"toy_{plan.language}.py")}
        more.append(_fill("example.md", example))
    if last is not None:
        code, result = last
        more.append(_fill("last_try.md", {"code": code, "verdict": tell(result)}))
    card = problem.card
    text = _fill(
        "task.md",
        {
            "language": _LANGUAGES[plan.language],
            "code": problem.code,
            "summary": " ".join(card.summary.split()) if card else "see `forward`.",
            "toolchain": _TOOLCHAINS[plan.language],
            "dtype": _DTYPES[plan.precision],
            "cases": "; ".join(case.about for case in card.cases) + "." if card else "other values.",
            "weights": _CACHED if card and card.caches_weights else _NOT_CACHED,
            "more": "".join(more),
        },
    )
    return [Message("user", text)]


def tell(result: Result) -> str:
    """Return what a model is told of its last try: why it is wrong, or how fast it is beside the baselines."""
    if not result.correct:
        reasons = "\n".join(f"- {each.message}" for each in result.verdict.reasons[:MOST_REASONS])
        return f"It is not right ({result.status}):\n{reasons}\nMend it."
    if result.measurement is None:
        return "It is right. Make it faster."
    lines = [f"It is right, and takes {result.measurement.median_us:.1f} us."]
    lines += [_compared(each) for each in result.measurement.comparisons if each.speedup is not None]
    if result.measurement.roofline is not None:
        lines.append(f"- memory and arithmetic of the device allow {result.measurement.roofline.floor_us:.1f} us")
    return "\n".join([*lines, "Make it faster."])


def known_hardware() -> dict[str, Hardware]:
    """Return the GPUs whose figures come with the package, by short name."""
    return msgspec.toml.decode((_FOLDER / "hardware.toml").read_bytes(), type=dict[str, Hardware])


def named_hardware(name: str) -> Hardware:
    """Return the figures of a GPU by its short name.

    Raises:
        UsageError: it is not among those that come with the package.
    """
    known = known_hardware()
    if name.lower() not in known:
        raise UsageError(f"no figures of a GPU {name!r}; there are {', '.join(known)}, or leave it out to measure one")
    return known[name.lower()]


def measured_hardware(device: torch.device) -> Hardware:
    """Return the figures of a GPU that is here, its rates measured.

    Raises:
        CannotRunError: the device is a CPU.
    """
    if device.type != "cuda":
        raise CannotRunError(f"there is no GPU to take figures of; name one: --hardware {'|'.join(known_hardware())}")
    import torch

    from dlrm_bench.timing.roofline import measure_ceilings

    facts: Any = torch.cuda.get_device_properties(device)
    ceilings = measure_ceilings(device)
    return Hardware(
        name=facts.name,
        multiprocessors=facts.multi_processor_count,
        memory_gb=round(facts.total_memory / 1e9, 1),
        bandwidth_gb_s=round(ceilings.copy_bytes_per_second / 1e9),
        bf16_tflops=round(ceilings.flops_per_second / 1e12),
        l2_mb=round(facts.L2_cache_size / 1e6),
        shared_kb=facts.shared_memory_per_block_optin // 1024,
        measured=True,
    )


def _hardware(hardware: Hardware, problem: Problem) -> str:
    figures = {name: f"{value:g}" for name, value in msgspec.structs.asdict(hardware).items() if name != "name"}
    values = {
        **figures,
        "name": hardware.name,
        "bandwidth": figures["bandwidth_gb_s"],
        "how": "rates measured on it" if hardware.measured else "by its data sheet",
        "bound": f" At the sizes in the file {_BOUNDS[problem.card.bound]} bound the time." if problem.card else "",
    }
    return _fill("hardware.md", values)


def _compared(each: Comparison) -> str:
    return (
        f"- {each.speedup:.2f} times as fast as {each.baseline} ({each.message}), which takes {each.median_us:.1f} us"
    )


def _fill(name: str, values: Mapping[str, str]) -> str:
    return Text(_read(name)).substitute(values)


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
