"""The problems as a level of a KernelBench checkout, with runs of known outcome to try a harness on."""

from __future__ import annotations

from dlrm_bench.paths import problems_dir
from dlrm_bench.problems import Problem, load_problems
from dlrm_bench.submissions import Submission, baseline, solution

LEVEL = 5
"""KernelBench's own levels are 1 to 4."""

_README = """# dlrm-bench's problems as level {level} of KernelBench

Copy `KernelBench/level{level}` and `runs` into a checkout, beside its own; {count} problems, ids {first} to {last}.
The `.toml` files are dlrm-bench's facts about the problems; KernelBench reads `.py` files only. The runs hold kernels
to try a harness on, named as KernelBench names them: {runs}.
"""


def files() -> dict[str, bytes]:
    """Return what `export kernelbench` writes: contents by path within the folder."""
    problems = load_problems()
    source = problems_dir() / "level1"
    level = {
        f"KernelBench/level{LEVEL}/{path.name}": path.read_bytes()
        for problem in problems
        for path in sorted(source.glob(f"{problem.id}_{problem.name}.*"))
        if path.suffix in (".py", ".toml")
    }
    kernels = [kernel for problem in problems for kernel in _right_kernels(problem)]
    runs = {_run_file(kernel): kernel.source.encode() for kernel in kernels}
    names = ", ".join(f"`runs/{name}`" for name in sorted({_run_name(kernel) for kernel in kernels}))
    readme = _README.format(level=LEVEL, count=len(problems), first=problems[0].id, last=problems[-1].id, runs=names)
    return {"README.md": readme.encode(), **level, **runs}


def _right_kernels(problem: Problem) -> list[Submission]:
    return [baseline("eager", problem), solution("triton", problem)]


def _run_name(kernel: Submission) -> str:
    return kernel.label.partition(":")[2]


def _run_file(kernel: Submission) -> str:
    return f"runs/{_run_name(kernel)}/level_{LEVEL}_problem_{kernel.problem.id}_sample_0_kernel.py"
