from __future__ import annotations

import dataclasses
import importlib.util
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from dlrm_bench.errors import CannotRunError, SubmissionError, UsageError
from dlrm_bench.projection.modules import reference_modules, submitted_modules
from dlrm_bench.projection.sites import CrossSite, DotSite, TablesSite, pairs_below_of_above
from dlrm_bench.projection.splice import _sites, splice, trusted_submissions
from dlrm_bench.records import Projection, Saving, Splice
from dlrm_bench.submissions import Submission, baseline
from dlrm_bench.workloads.dlrm_fused import without_notes
from dlrm_bench.workloads.registry import open_workload

CPU = torch.device("cpu")
needs_torchrec = pytest.mark.skipif(
    importlib.util.find_spec("torchrec") is None or importlib.util.find_spec("fbgemm_gpu") is None,
    reason="torchrec and fbgemm-gpu are not installed",
)
BUILDS = ["eager", pytest.param("fused", marks=needs_torchrec)]
# fbgemm says this of itself wherever it is imported.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:fbgemm_gpu")


def put(name: str, build: Any, *submissions: Submission, **options: Any) -> Splice:
    return splice(open_workload(name), build, list(submissions), CPU, tiny=True, **options)


@pytest.fixture(scope="module")
def eager(problems: Any) -> dict[int, Submission]:
    return {number: baseline("eager", problems.find(number)) for number in (1, 2, 7, 8)}


def mend(submission: Submission, old: str, new: str) -> Submission:
    assert old in submission.source
    return dataclasses.replace(submission, source=submission.source.replace(old, new))


@pytest.mark.parametrize("build", BUILDS)
def test_inference_agrees_and_is_timed_in_pairs(build: str, eager: dict[int, Submission]) -> None:
    done = put("dlrm-inference", build, eager[2], eager[7])
    assert done.correct
    assert [each.place for each in done.replacements] == ["sparse_arch", "inter_arch"]
    assert [check.what for check in done.checks] == ["output"]
    assert done.times is not None
    assert [len(pair) for pair in done.times.spliced_us] == [2] * 10
    assert done.times.saved == pytest.approx(1 - 1 / done.times.speedup)
    assert done.times.saved_low <= done.times.saved <= done.times.saved_high
    assert done.not_covered == []


@pytest.mark.parametrize(("build", "places"), [("eager", 2), pytest.param("fused", 1, marks=needs_torchrec)])
def test_training_agrees_forward_backward_and_after_a_step(
    build: str, places: int, eager: dict[int, Submission]
) -> None:
    done = put("dlrm-dcnv2-training", build, eager[2], eager[8])
    assert done.correct
    assert [check.what for check in done.checks] == ["output", "gradient", "output_after_a_step"]
    assert len(done.replacements) == places
    assert any("backward" in each for each in done.not_covered)
    assert any("fbgemm" in each for each in done.not_covered) == (build == "fused")


def test_bags_of_one_table_are_spliced_one_by_one(eager: dict[int, Submission]) -> None:
    for name in ("dlrm-inference", "dlrm-dcnv2-training"):
        done = put(name, "eager", eager[1])
        assert done.correct
        assert [each.problem for each in done.replacements] == ["EmbeddingBagSum"]


def test_all_tables_in_one_call_go_before_one_by_one(eager: dict[int, Submission]) -> None:
    done = put("dlrm-inference", "eager", eager[1], eager[2])
    assert [each.problem for each in done.replacements] == [TablesSite.problem]


@pytest.mark.parametrize(
    ("number", "old", "new"),
    [
        (2, 'mode="sum"', 'mode="mean"'),
        (2, "return pooled.view(", "pooled[-1] = 0; return pooled.view("),
        (7, "offset=-1", "offset=-1).flip(1"),
    ],
)
@pytest.mark.parametrize("build", BUILDS)
def test_a_wrong_submission_is_found_out_and_not_timed(
    build: str, number: int, old: str, new: str, eager: dict[int, Submission]
) -> None:
    done = put("dlrm-inference", build, mend(eager[number], old, new))
    assert not done.correct
    assert done.times is None


@pytest.mark.parametrize("build", BUILDS)
def test_a_wrong_cross_layer_is_found_out(build: str, eager: dict[int, Submission]) -> None:
    done = put("dlrm-dcnv2-training", build, mend(eager[8], "x = features * F", "x = x * F"))
    assert not done.correct


STALE = """

class ModelNew(Model):
    def forward(self, *inputs):
        if not hasattr(self, "kept"):
            self.kept = [each.data.clone() for each in self.parameters()]
        for own, kept in zip(self.parameters(), self.kept):
            own.data = kept
        return super().forward(*inputs)
"""


@pytest.mark.parametrize("number", [2, 8])
def test_old_weights_are_found_out_after_a_step(number: int, eager: dict[int, Submission], problems: Any) -> None:
    stale = Submission("stale", problems.find(number), problems.find(number).code + STALE)
    done = put("dlrm-dcnv2-training", "eager", stale)
    assert [check.what for check in done.checks if not check.correct] == ["output_after_a_step"]


def test_weights_that_cannot_be_shared_cannot_be_trained(eager: dict[int, Submission]) -> None:
    other = mend(eager[2], "self.weight", "self.other")
    assert put("dlrm-inference", "eager", other).correct
    with pytest.raises(SubmissionError, match="has no weight weight as the reference has it, so it cannot be trained"):
        put("dlrm-dcnv2-training", "eager", other)


@pytest.mark.parametrize("numbers", [(2,), (1,), (8,), (2, 8)])
def test_a_spliced_training_step_changes_the_same_weights_by_as_much(
    numbers: tuple[int, ...], eager: dict[int, Submission], tmp_path: Path
) -> None:
    """One step of the original and one of the spliced model from the same weights end in the same weights."""
    results = []
    for spliced in (False, True):
        workload = open_workload("dlrm-dcnv2-training")
        recommender: Any = workload.start("eager", CPU, "fp32", tiny=True)
        sites, used = _sites(recommender, {eager[n].problem.name: eager[n] for n in numbers})
        references = {site: reference_modules(site, CPU, "fp32") for site in sites}
        for site in sites:
            site.adopt(references[site])
        before = [each.detach().clone() for each in recommender.model.parameters()]
        stepped = recommender
        if spliced:
            model = recommender.model
            for site in used:
                kind = {each.problem.name: each for each in eager.values()}[site.problem]
                model = site.put(
                    model, submitted_modules(kind, site, references[site], tmp_path, "fp32"), backward=True
                )
            stepped = dataclasses.replace(recommender, model=model)
        stepped.step()
        after = [each.detach().clone() for each in recommender.model.parameters()]
        assert all(not torch.equal(old, new) for old, new in zip(before, after, strict=True))
        results.append(after)
    for plain, other in zip(*results, strict=True):
        torch.testing.assert_close(plain, other, rtol=1e-4, atol=1e-6)


def test_a_submission_that_does_not_run_is_told_in_a_line(eager: dict[int, Submission]) -> None:
    broken = mend(eager[7], "vectors = torch.cat", "raise RuntimeError('no driver\\nand more'); vectors = torch.cat")
    with pytest.raises(CannotRunError, match=r"does not run here: RuntimeError: no driver$"):
        put("dlrm-inference", "eager", broken)


def test_a_submission_that_cannot_be_loaded_or_built_is_told_in_a_line(eager: dict[int, Submission]) -> None:
    with pytest.raises(SubmissionError, match="baseline:eager for DotInteraction cannot be loaded: ImportError: gone"):
        put("dlrm-inference", "eager", mend(eager[7], "import torch\n", "raise ImportError('gone')\n"))
    with pytest.raises(SubmissionError, match="baseline:eager for DotInteraction cannot be built: TypeError"):
        put("dlrm-inference", "eager", mend(eager[7], "(self, features: int)", "(self)"))


@pytest.mark.slow
@needs_torchrec
def test_the_fused_build_says_nothing_of_its_libraries_own_affairs(python: Callable[..., Any]) -> None:
    options = ["--build", "fused", "--tiny", "--device", "cpu"]
    called = python("-m", "dlrm_bench", "splice", "dlrm-inference", "baseline:eager", *options)
    assert (called.code, called.err) == (0, "")


@needs_torchrec
def test_only_known_notes_are_kept_back(caplog: pytest.LogCaptureFixture) -> None:
    with without_notes():
        logging.warning("_fbgemm_torch_compat_table has no entry for 9.9.0 of FBGEMM")
        logging.warning("which is not guaranteed to be compatible")
    logging.warning("_fbgemm_torch_compat_table has no entry, once more")
    assert [record.message[:20] for record in caplog.records] == ["which is not guarant", "_fbgemm_torch_compat"]


def test_what_has_no_place_is_refused(eager: dict[int, Submission]) -> None:
    with pytest.raises(UsageError, match="nothing in vit-b16-training has a problem that stands for it"):
        put("vit-b16-training", "eager", eager[2])
    with pytest.raises(UsageError, match="a place for TableBatchedEmbeddingBagSum and DotInteraction, and was given"):
        put("dlrm-inference", "eager", eager[8])
    with pytest.raises(SubmissionError, match="two submissions for DotInteraction"):
        put("dlrm-inference", "eager", eager[7], dataclasses.replace(eager[7], label="other"))


def test_the_full_size_is_not_for_a_cpu(cli: Callable[..., Any]) -> None:
    called = cli("splice", "dlrm-inference", "baseline:eager", "--device", "cpu")
    assert (called.code, called.out) == (3, "")
    assert "--tiny runs on a CPU" in called.err


@needs_torchrec
def test_fbgemm_keeps_its_tables_in_training(eager: dict[int, Submission]) -> None:
    with pytest.raises(UsageError, match="the fused build: it has a place for LowRankCrossInteraction, and was given"):
        put("dlrm-dcnv2-training", "fused", eager[2])


def test_only_what_ships_is_trusted_without_a_word(tmp_path: Path) -> None:
    path = tmp_path / "7_DotInteraction.py"
    path.write_text("class ModelNew: pass")
    with pytest.raises(UsageError, match="outside the sandbox; judge it first"):
        trusted_submissions([str(path)], trust=False)
    assert [each.problem.id for each in trusted_submissions([str(path)], trust=True)] == [7]
    assert {each.problem.id for each in trusted_submissions(["solution:triton"], trust=False)} == {1, 2, 7, 8}


def test_pairs_above_and_below_the_diagonal_are_the_same_products() -> None:
    vectors = torch.randn(3, 5, 4)
    products = torch.bmm(vectors, vectors.transpose(1, 2))
    (row, column), (lower, left) = torch.triu_indices(5, 5, offset=1), torch.tril_indices(5, 5, offset=-1)
    above = torch.cat([vectors[:, 0], products[:, row, column]], dim=1)
    below = torch.cat([vectors[:, 0], products[:, lower, left]], dim=1)
    torch.testing.assert_close(above[:, pairs_below_of_above(5, 4)], below)


def test_the_command_prints_projected_beside_measured(cli: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "projection.json"
    path.write_bytes(msgspec.json.encode(projection("dlrm-inference-eager")))
    arguments = ("splice", "dlrm-inference", "baseline:eager", "--tiny", "--device", "cpu", "--projection", path)
    called = cli(*arguments)
    assert called.code == 0
    assert "measured: " in called.out
    assert "projected, matched: 61.0% saved [60.0%, 62.0%], 2.56 times as fast" in called.out
    done = msgspec.convert(cli(*arguments, "--json").json, Splice)
    assert done.projected == projection("dlrm-inference-eager").savings
    assert {each.problem for each in done.replacements} == {TablesSite.problem, DotSite.problem}


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (None, 3, "cannot read"),
        (b"{}", 2, "is not what `dlrm-bench project --json` prints"),
        ("other", 2, "is a projection for other, not for dlrm-inference-eager"),
    ],
)
def test_a_projection_that_does_not_fit_is_refused(
    text: Any, code: int, message: str, cli: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "projection.json"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else msgspec.json.encode(projection(text)))
    called = cli("splice", "dlrm-inference", "baseline:eager", "--tiny", "--device", "cpu", "--projection", path)
    assert called.code == code
    assert message in called.err


def test_the_command_fails_where_the_model_is_wrong(
    cli: Callable[..., Any], tmp_path: Path, eager: dict[int, Submission]
) -> None:
    path = tmp_path / "8_LowRankCrossInteraction.py"
    path.write_text(mend(eager[8], "+ x", "- x").source)
    called = cli("splice", "dlrm-dcnv2-training", path, "--tiny", "--device", "cpu", "--trust")
    assert called.code == 1
    assert "output: WRONG" in called.out
    assert CrossSite.problem in called.out


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("build", ["eager", "fused"])
@pytest.mark.parametrize("name", ["dlrm-inference", "dlrm-dcnv2-training"])
def test_shipped_solutions_agree_on_a_gpu(name: str, build: Any) -> None:
    submissions = trusted_submissions(["solution:triton"], trust=False)
    done = splice(open_workload(name), build, submissions, torch.device("cuda", 0), tiny=True)
    assert done.correct


def projection(workload: str) -> Projection:
    return Projection(
        workload=workload,
        gpu="Test GPU",
        submission="solution:triton",
        policy="paper",
        fallback=False,
        wall_us=1000.0,
        wall_is_profiled=False,
        addressable=0.7,
        coverage=1.0,
        win_rate=1.0,
        median_speedup_of_wins=3.0,
        savings=[Saving("matched", 0.61, 2.564, 0.60, 0.62, 2.5, 2.63)],
        matches=[],
        identity=None,
    )
