"""Open a trace, reduced or as torch.profiler wrote it."""

from __future__ import annotations

import re
from pathlib import Path

from dlrm_bench.errors import MissingFileError
from dlrm_bench.paths import traces_dir
from dlrm_bench.records import Trace
from dlrm_bench.runs import RESULTS_FILE
from dlrm_bench.traces.classify import classify_anew
from dlrm_bench.traces.profile import read_profile, without_garbage_collection
from dlrm_bench.traces.reduce import reduce_profile
from dlrm_bench.traces.store import SUFFIX, decode_trace, read_small

_KINETO = re.compile(rb'^\s*\[|"traceEvents"')


def load_trace(path: str | Path) -> Trace:
    """Read a trace: a reduced one, or any Kineto JSON, plain or gzipped; classified by the rules of this release.

    Raises:
        MissingFileError: the file cannot be opened.
        TraceError: it is empty, damaged, foreign, or has nothing in it that ran on a GPU.
    """
    path = Path(path)
    text = read_small(path)
    if text is not None and text.strip() and not _KINETO.search(text):
        return classify_anew(decode_trace(text, path))
    with without_garbage_collection():
        return reduce_profile(read_profile(path), _workload_name(path))


def find_trace(name: str) -> Path:
    """Return the path of a trace: a file's, or that of a reference trace by its workload's name.

    Raises:
        MissingFileError: there is no such file, and no such reference trace.
    """
    path = Path(name)
    if path.exists():
        return path
    shipped = {each.name.removesuffix(SUFFIX): each for each in sorted(traces_dir().glob(f"*/*{SUFFIX}"))}
    if name in shipped:
        return shipped[name]
    known = ", ".join(shipped) or "none"
    raise MissingFileError(f"no file {name}, and no reference trace of that name; there are {known}")


def reference_traces(gpu: str) -> list[Path]:
    """Return the paths of the traces that ship with the package for a GPU, by its full name.

    Raises:
        MissingFileError: there are none.
    """
    return sorted(reference_results(gpu).parent.glob(f"*{SUFFIX}"))


def reference_results(gpu: str) -> Path:
    """Return the results that ship with the package for a GPU, by its full name.

    Raises:
        MissingFileError: there are none.
    """
    folders = [each.parent for each in sorted(traces_dir().glob(f"*/{RESULTS_FILE}"))]
    found = next((each for each in folders if each.name in re.findall(r"\w+", gpu.lower())), None)
    if found is None:
        raise MissingFileError(
            f"no reference results for {gpu}, only for {', '.join(each.name for each in folders)}; "
            f"name your own with --results"
        )
    return found / RESULTS_FILE


def _workload_name(path: Path) -> str:
    name = path.name
    for suffix in (".gz", ".json", ".trace", ".pt"):
        name = name.removesuffix(suffix)
    return name
