from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import torch

from dlrm_bench.errors import MissingPackageError, UsageError
from dlrm_bench.libraries import installed_version
from dlrm_bench.workloads.recommenders import RecommenderConfig
from dlrm_bench.workloads.registry import MODULES, RECOMMENDERS, open_workload

CPU = torch.device("cpu")
TRANSFORMERS = [name for name in MODULES if name not in RECOMMENDERS]
BUILDS = [(name, build) for name in RECOMMENDERS for build in ("eager", "fused")]

needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="transformers is not installed"
)
needs_torchrec = pytest.mark.skipif(
    importlib.util.find_spec("torchrec") is None or importlib.util.find_spec("fbgemm_gpu") is None,
    reason="torchrec and fbgemm-gpu are not installed",
)
# fbgemm says this of itself wherever it is imported.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:fbgemm_gpu")


def start(name: str, build: Any = "eager") -> Any:
    if build == "fused" and (importlib.util.find_spec("torchrec") is None or installed_version("torchrec") is None):
        pytest.skip("torchrec is not installed")
    return open_workload(name).start(build, CPU, "fp32", tiny=True)


def test_there_are_seven_and_the_two_recommenders_have_two_builds() -> None:
    workloads = [open_workload(name) for name in MODULES]
    assert [each.name for each in workloads] == list(MODULES)
    assert len(workloads) == 7
    labels = [each.label(build) for each in workloads for build in each.builds]
    assert len(set(labels)) == 9


@pytest.mark.parametrize(
    ("wanted", "hint"), [("dlrm-inferense", "did you mean dlrm-inference"), ("xyz", "there are decoder-1b")]
)
def test_an_unknown_workload_has_near_names(wanted: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        open_workload(wanted)


def test_a_build_that_nobody_uses_is_refused() -> None:
    with pytest.raises(UsageError, match="bert-large-training has no build 'fused'; there is eager"):
        open_workload("bert-large-training").start("fused", CPU, "fp32", tiny=True)


def test_without_transformers_the_command_that_brings_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dlrm_bench.workloads.base.installed_version", lambda *_: None)
    with pytest.raises(MissingPackageError, match="pip install 'transformers"):
        open_workload("decoder-1b-prefill").start("eager", CPU, "fp32", tiny=True)


@pytest.mark.parametrize("name", MODULES)
def test_configurations_are_plain_data_and_tiny_has_every_key(name: str) -> None:
    workload = open_workload(name)
    full, tiny = (msgspec.to_builtins(workload.configuration(each)) for each in (False, True))
    assert full.keys() == tiny.keys()
    allowed = (bool, int, float, str, list)
    assert all(isinstance(value, allowed) for value in full.values())


@needs_transformers
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("decoder-1b-prefill", 1_235_814_400),
        ("decoder-7b-decode", 6_738_415_616),
        ("bert-large-training", 335_174_458),
        ("vit-b16-training", 86_567_656),
        ("resnet50-training", 25_557_032),
    ],
)
def test_full_models_have_the_parameters_of_their_namesakes(name: str, parameters: int) -> None:
    # Built where tensors have no memory.
    ready = open_workload(name).start("eager", torch.device("meta"), "bf16")
    assert sum(each.numel() for each in ready.model.parameters()) == parameters


@needs_transformers
@pytest.mark.parametrize("name", [each for each in TRANSFORMERS if each.endswith("training")])
def test_training_steps_lower_the_loss(name: str) -> None:
    ready = start(name)
    losses = [float(ready.step()) for _ in range(8)]
    assert losses[-1] < losses[0]


@needs_transformers
def test_a_prefill_gives_the_last_token_alone() -> None:
    first, second = (start("decoder-1b-prefill").step() for _ in range(2))
    assert first.shape == (2, 1, 512)
    assert torch.equal(first, second)


@needs_transformers
def test_decoding_starts_over_where_its_cache_is_full() -> None:
    ready = start("decoder-7b-decode")
    lengths = []
    for _ in range(6):
        assert ready.step().shape == (2, 1, 512)
        lengths.append(int(ready.cache.layers[0].cumulative_length))
    assert lengths == [29, 30, 31, 32, 29, 30]


@pytest.mark.parametrize(("name", "build"), BUILDS)
def test_recommenders_run_and_repeat(name: str, build: str) -> None:
    first, second = (start(name, build) for _ in range(2))
    values = [first.step(), second.step()]
    assert torch.equal(*values)
    assert values[0].isfinite().all()
    if first.training:
        later = [float(first.step()) for _ in range(8)]
        assert later[-1] < float(values[0])


@pytest.mark.parametrize(("name", "interaction"), [("dlrm-inference", 7), ("dlrm-dcnv2-training", 8)])
def test_sizes_are_those_of_the_problems(name: str, interaction: int, problems: Any) -> None:
    config = open_workload(name).full
    tables, crossed = (problems.find(number).namespace() for number in (2, interaction))
    assert isinstance(config, RecommenderConfig)
    assert (config.rows, config.mean_lengths, config.dim) == (tables["ROWS"], tables["MEAN_LENGTHS"], tables["DIM"])
    assert config.batch == crossed["BATCH"]
    assert crossed["FEATURES"] == (config.tables if interaction == 7 else (config.tables + 1) * config.dim)
    assert (config.cross_layers, config.cross_rank) == (crossed.get("LAYERS", 0), crossed.get("RANK", 0))


@needs_torchrec
@pytest.mark.parametrize("name", RECOMMENDERS)
def test_both_builds_see_the_same_batch(name: str) -> None:
    eager, fused = start(name, "eager"), start(name, "fused")
    for each in (eager, fused):
        assert each.features.offsets().numel() == len(each.config.rows) * each.config.batch + 1
        assert int(each.features.offsets()[-1]) == each.features.values().numel()
    assert _widths(eager.model.over_arch) == _widths(fused.model.over_arch)
    assert _widths(eager.model.dense_arch) == _widths(fused.model.dense_arch)


def test_a_table_is_handed_its_own_lookups() -> None:
    features = start("dlrm-inference").features
    joined = torch.cat([indices for indices, _ in features.by_table])
    assert torch.equal(joined, features.values())
    lengths = torch.cat([offsets.diff() for _, offsets in features.by_table])
    assert torch.equal(lengths, features.offsets().diff())


def _widths(module: torch.nn.Module) -> list[tuple[int, int]]:
    return [(m.in_features, m.out_features) for m in module.modules() if isinstance(m, torch.nn.Linear)]


def test_naming_workloads_needs_no_torch(python: Callable[..., Any]) -> None:
    script = "import sys, dlrm_bench.workloads.registry, dlrm_bench.cli.profile_command; print('torch' in sys.modules)"
    assert python("-c", script).out.strip() == "False"
