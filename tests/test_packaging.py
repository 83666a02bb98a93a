from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

Call = Callable[..., Any]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(root: Path, python: Call, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel from what git would carry to another machine."""
    if not (root / ".git").exists():
        pytest.skip("not a git checkout")
    source, target = (tmp_path_factory.mktemp(name) for name in ("source", "dist"))
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (root / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, source / name)
    built = python("-m", "build", "--wheel", "--no-isolation", "--outdir", target, source, cwd=target)
    assert built.code == 0, built.out + built.err
    (path,) = target.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, python: Call, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Install the wheel into a folder of its own, and return the environment in which Python finds it first."""
    target = tmp_path_factory.mktemp("installed")
    done = python("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", target, wheel, cwd=target)
    assert done.code == 0, done.err
    return {**os.environ, "PYTHONPATH": str(target)}


def test_a_wheel_carries_the_problems_as_they_are(wheel: Path, root: Path) -> None:
    prefix = "dlrm_bench/_data/problems/"
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith(prefix) and not name.endswith("/")]
        packed = {name.removeprefix(prefix): archive.read(name) for name in names}
    files = [path for suffix in ("py", "toml") for path in (root / "problems").rglob(f"*.{suffix}")]
    assert len(files) == 24
    assert packed == {str(path.relative_to(root / "problems")): path.read_bytes() for path in files}


def test_a_wheel_carries_the_package_its_data_and_its_type_marker(wheel: Path, root: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("dlrm_bench/")}
    assert "dlrm_bench/py.typed" in packed
    files = [path for suffix in ("py", "toml", "md") for path in (root / "dlrm_bench").rglob(f"*.{suffix}")]
    assert {"rules.toml", "hardware.toml", "task.md", "toy_triton.py"} <= {path.name for path in files}
    assert {str(path.relative_to(root)) for path in files} <= packed


def test_a_wheel_carries_no_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert {name.split("/")[0].split("-")[0] for name in archive.namelist()} == {"dlrm_bench"}


def test_an_installed_wheel_lists_the_problems_from_any_folder(
    installed: dict[str, str], python: Call, tmp_path: Path
) -> None:
    called = python("-m", "dlrm_bench", "list", "--json", cwd=tmp_path, env=installed)
    assert (called.code, len(called.json)) == (0, 12)
    where = python("-c", "import dlrm_bench; print(dlrm_bench.__file__)", cwd=tmp_path, env=installed)
    assert where.out.startswith(installed["PYTHONPATH"])


def test_an_installed_wheel_has_what_it_reads_beside_its_code(
    installed: dict[str, str], python: Call, tmp_path: Path
) -> None:
    script = (
        "from dlrm_bench.interop.prompts import named_hardware, write_prompt\n"
        "from dlrm_bench.interop.generate import SCHEMA\n"
        "from dlrm_bench.problems import load_problems\n"
        "from dlrm_bench.records import Plan\n"
        "h200 = named_hardware('h200')\n"
        "plans = [Plan(SCHEMA, 'm', each, 'cuda', 'bf16', None, None, 1, h200) for each in ('hardware', 'example')]\n"
        "print([len(write_prompt(problem, plan)) for plan in plans for problem in load_problems()])"
    )
    called = python("-c", script, cwd=tmp_path, env=installed)
    assert called.json == [1] * 24, called.err
    traced = python("-m", "dlrm_bench", "trace", "dlrm-inference-eager", "--json", cwd=tmp_path, env=installed)
    assert traced.code == 0, traced.out


def test_an_installed_wheel_has_the_text_of_every_baseline(
    installed: dict[str, str], python: Call, tmp_path: Path
) -> None:
    script = (
        "from dlrm_bench.problems import load_problems\n"
        "from dlrm_bench.submissions import baseline\n"
        "print([len(baseline('fbgemm', problem).source) > 0 for problem in load_problems()])"
    )
    called = python("-c", script, cwd=tmp_path, env=installed)
    assert msgspec.json.decode(called.out.lower()) == [True] * 12
