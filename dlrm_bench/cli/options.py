"""Options that several commands share, and the settings they make."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args

import click

from dlrm_bench.errors import UsageError
from dlrm_bench.problems import DEFAULT_CASE, Problem, load_problems, open_problem, open_problems
from dlrm_bench.records import Effort, Precision, Size
from dlrm_bench.submissions import BASELINES, CARDLESS_BASELINES

if TYPE_CHECKING:
    from dlrm_bench.evaluate import Settings

json_option = click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
PLACES = "bundled ids or names, comma-separated, or kernelbench:DIR[:LIST], hf:DIR[:LIST] or hf:OWNER/NAME[:LIST]"
ONE_PROBLEM = "PROBLEM is a bundled id or name, or kernelbench:DIR:ID, hf:DIR:ID or hf:OWNER/NAME:ID."
problems_option = click.option(
    "--problems",
    callback=lambda context, parameter, value: open_problems(value),
    help=f"Which: {PLACES}; all the bundled ones if left out.",
)
GIB = 1 << 30


class ProblemType(click.ParamType[Problem]):
    """A problem by id or name, bundled or of another place, with shell completion of the bundled names."""

    name = "problem"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Problem:
        """Open the problem."""
        return value if isinstance(value, Problem) else open_problem(value)

    def shell_complete(
        self, context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        """Complete a name."""
        names = [problem.name for problem in load_problems()]
        return [
            click.shell_completion.CompletionItem(name) for name in names if name.lower().startswith(incomplete.lower())
        ]


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say where and how submissions run."""
    for option in reversed(
        [
            click.option("--device", help="cpu, cuda or cuda:N; the first GPU if there is one."),
            click.option("--size", type=click.Choice(get_args(Size)), help="full on a GPU, small on a CPU."),
            click.option("--precision", type=click.Choice(get_args(Precision)), help="bf16 on a GPU, fp32 on a CPU."),
            click.option("--timeout", type=click.FloatRange(min=1), help="Seconds for one submission as a whole."),
            click.option("--memory", type=click.FloatRange(min=0.1), help="GiB that a submission may allocate."),
        ]
    ):
        command = option(command)
    return command


def timing_options(default_effort: str, efforts: tuple[str, ...] = get_args(Effort)) -> Callable[..., Any]:
    """Add the options that say how submissions are timed."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        command = click.option("--warm", is_flag=True, help="Leave a GPU's L2 as it is between timed calls.")(command)
        command = click.option(
            "--effort", type=click.Choice(efforts), default=default_effort, show_default=True, help="How long to time."
        )(command)
        return click.option(
            "--baseline",
            "baselines",
            help=f"Comma-separated: what to time beside; {', '.join(BASELINES)}, so far as the problem has them.",
        )(command)

    return add


def make_settings(
    device: str | None,
    size: Size | None,
    precision: Precision | None,
    timeout: float | None,
    memory: float | None,
    *,
    effort: str = "none",
    baselines: str | None = None,
    warm: bool = False,
    carded: bool = True,
    cases: tuple[str, ...] = (),
    timed_case: str = DEFAULT_CASE,
) -> Settings:
    """Return the settings that the shared options ask for, with the device's defaults for what was left out.

    Problems that are not `carded`, such as KernelBench's, have one size, and no library baseline.
    """
    from dlrm_bench.environment import default_precision, default_size, open_device
    from dlrm_bench.evaluate import Settings
    from dlrm_bench.sandbox.limits import Limits, bound_own_memory

    where = open_device(device)
    if where.type == "cpu":
        bound_own_memory()
    fitting = BASELINES if carded else CARDLESS_BASELINES
    names = fitting if baselines is None else tuple(name.strip() for name in baselines.split(",") if name.strip())
    unknown = set(names) - set(BASELINES)
    if unknown:
        raise UsageError(f"no baseline {', '.join(sorted(unknown))}; there are {', '.join(BASELINES)}")
    return Settings(
        device=where,
        size=size or (default_size(where) if carded else "full"),
        precision=precision or default_precision(where),
        effort=None if effort == "none" else effort,  # type: ignore[arg-type]
        baselines=names,
        cases=cases or None,
        timed_case=timed_case,
        cold=not warm,
        limits=Limits.within(timeout, _memory_bytes(where, memory)),
    )


def _memory_bytes(device: Any, asked: float | None) -> int:
    if asked is not None:
        return int(asked * GIB)
    if device.type == "cuda":
        import torch

        return int(torch.cuda.get_device_properties(device).total_memory * 0.6)
    return min(8 * GIB, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
