"""Where the problem files and the reference traces are."""

from pathlib import Path

from dlrm_bench.errors import MissingFileError


def data_root() -> Path:
    """Return the folder that holds `problems/` and `reference_traces/`.

    A wheel carries both inside the package; a checkout, installed or not, keeps them beside it.

    Raises:
        MissingFileError: neither place has them.
    """
    package = Path(__file__).parent
    for root in (package / "_data", package.parent):
        if (root / "problems").is_dir():
            return root
    raise MissingFileError(
        f"no problems/ in {package / '_data'} or {package.parent}; reinstall dlrm-bench, or run it from a full checkout"
    )


def problems_dir() -> Path:
    """Return the folder of the bundled problems, laid out as KernelBench's: `level1/{id}_{Name}.py`."""
    return data_root() / "problems"


def traces_dir() -> Path:
    """Return the folder of the reference traces and results, one sub-folder a GPU."""
    return data_root() / "reference_traces"
