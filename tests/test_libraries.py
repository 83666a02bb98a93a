from __future__ import annotations

from collections.abc import Callable

import pytest

from dlrm_bench import libraries
from dlrm_bench.errors import LibraryPairError, MissingPackageError
from dlrm_bench.libraries import TORCH_OF_FBGEMM, check_fbgemm, fbgemm_for, installed_version, require_torchrec

Install = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Pretend that these distributions are installed, and no others."""

    def pretend(**versions: str) -> None:
        found = {name.replace("_", "-"): version for name, version in versions.items()}
        monkeypatch.setattr(
            libraries, "installed_version", lambda *names: next((found[n] for n in names if n in found), None)
        )

    return pretend


def test_the_version_of_the_first_installed_distribution_is_returned() -> None:
    assert installed_version("no-such-distribution", "pytest") == pytest.__version__
    assert installed_version("no-such-distribution") is None


def test_every_fbgemm_has_a_torch_of_its_own_and_none_is_left_out() -> None:
    minors = [[int(version.split(".")[1]) for version in pair] for pair in TORCH_OF_FBGEMM.items()]
    assert [torch - fbgemm for fbgemm, torch in minors] == [5] * len(minors)
    assert [fbgemm for fbgemm, _ in minors] == list(range(2, 2 + len(minors)))


@pytest.mark.parametrize(
    ("torch_version", "fbgemm"),
    [
        ("2.13.0", "1.8"),
        ("2.13.1+cu130", "1.8"),
        ("2.7.1", "1.2"),
        ("2.14.0.dev20260101", "1.9"),
        ("2.6.0", None),
        ("1.13.0", None),
        ("none", None),
    ],
)
def test_the_fbgemm_that_fits_a_torch(torch_version: str, fbgemm: str | None) -> None:
    assert fbgemm_for(torch_version) == fbgemm


@pytest.mark.parametrize("distribution", ["fbgemm_gpu", "fbgemm_gpu_cpu"])
@pytest.mark.parametrize("torch_version", ["2.13.0+cpu", "2.13.1"])
def test_a_pair_that_fits_is_let_pass(install: Install, distribution: str, torch_version: str) -> None:
    install(torch=torch_version, **{distribution: "1.8.0"})
    check_fbgemm()


def test_the_pair_that_is_installed_here_fits() -> None:
    check_fbgemm()


@pytest.mark.parametrize(
    ("torch_version", "mend"),
    [("2.12.0", r"pip install 'fbgemm-gpu-cpu==1\.7\.\*'"), ("2.20.0", r"install a torch from 2\.7 to 2\.14")],
)
def test_a_pair_that_does_not_fit_is_refused_with_both_versions_and_the_mend(
    install: Install, torch_version: str, mend: str
) -> None:
    install(torch=torch_version, fbgemm_gpu="1.8.0")
    with pytest.raises(LibraryPairError, match=mend) as caught:
        check_fbgemm()
    for fact in ("fbgemm-gpu 1.8.0", "torch 2.13", f"torch {torch_version}"):
        assert fact in str(caught.value)


def test_a_missing_fbgemm_is_refused_with_the_command_that_brings_it(install: Install) -> None:
    install(torch="2.13.0")
    with pytest.raises(MissingPackageError, match=r"for torch 2\.13\.0: pip install 'fbgemm-gpu-cpu==1\.8\.\*'"):
        check_fbgemm()


def test_a_missing_torchrec_is_refused_with_the_command_that_brings_it(install: Install) -> None:
    install(torch="2.13.0", fbgemm_gpu="1.8.0")
    with pytest.raises(MissingPackageError, match=r"pip install --no-deps 'torchrec==1\.8\.\*'"):
        require_torchrec()
