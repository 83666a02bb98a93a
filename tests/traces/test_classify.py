"""The rules, the policies, and the problems that stand for kernels."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dlrm_bench.errors import UsageError
from dlrm_bench.problems import load_problems
from dlrm_bench.records import TraceRow
from dlrm_bench.traces.classify import LONGEST_NAME, UNKNOWN, classify, name_agreement, normalise, rules
from dlrm_bench.traces.policies import find_policy, policies, stand_in, stand_ins

FIXTURES: list[dict[str, Any]] = msgspec.toml.decode((Path(__file__).parent / "kernels.toml").read_bytes())["kernel"]
NAMES = [(entry["rule"], entry.get("operator"), name) for entry in FIXTURES for name in entry["names"]]


def row(kernel: str = "k", operator: str | None = None, us: float = 1.0, **changes: Any) -> TraceRow:
    name = normalise(kernel)
    rule = classify(name, operator)
    values: dict[str, Any] = {
        "kernel": name,
        "operator": operator,
        "outer": operator,
        "part": None,
        "shapes": [],
        "dtype": None,
        "operation": rule.operation,
        "owner": rule.owner,
        "launches": 1,
        "step_us": [us],
        "exclusive_us": us,
        "shared_us": us,
    }
    return TraceRow(**{**values, **changes})


@pytest.mark.parametrize(("rule", "operator", "name"), NAMES, ids=[f"{rule}-{name[:30]}" for rule, _, name in NAMES])
def test_a_kernel_gets_its_rule(rule: str, operator: str | None, name: str) -> None:
    assert classify(normalise(name), operator).id == rule


def test_every_rule_has_a_fixture_and_an_id_of_its_own() -> None:
    ids = [rule.id for rule in rules().rule]
    assert max(Counter(ids).values()) == 1
    assert {entry["rule"] for entry in FIXTURES} == {*ids, UNKNOWN}


def test_the_order_of_rules_is_a_part_of_the_table() -> None:
    """Names that a later rule would take too go to the earlier one."""
    both = {
        "attention.flash": "gemm.cutlass",
        "convolution.cudnn": "gemm.other",
        "sparse_data.fbgemm": "elementwise.aten",
        "embedding_forward.aten": "gather_scatter.aten",
        "normalization.inductor": "reduction.inductor",
    }
    order = {rule.id: place for place, rule in enumerate(rules().rule)}
    by_id = {rule.id: rule for rule in rules().rule}
    for first, later in both.items():
        assert order[first] < order[later]
        assert any(re.search(by_id[later].kernel, normalise(name)) for rule, _, name in NAMES if rule == first), first


@pytest.mark.parametrize(
    "spelling",
    [
        "void at::native::(anonymous namespace)::foo<4, std::array<char*, 2ul> >(int, at::PackedTensorAccessor<float>)",
        "void at::native::<unnamed>::foo<(int)4, std::array<char *, (unsigned long)2ul>>(int)",
        "void at::native::(anonymous namespace)::foo<4, std::array<char*, 2ul>> [clone .kd]",
    ],
)
def test_a_name_is_the_same_whatever_tool_wrote_it(spelling: str) -> None:
    assert normalise(spelling) == "void at::native::anonymous::foo<4, std::array<char*, 2ul>>"


def test_the_argument_list_goes_and_what_else_has_parentheses_stays() -> None:
    nested = "void a::b<a::c(int)::{lambda(float)#1}>"
    assert normalise(f"{nested}(a::Embedding)") == nested
    assert normalise("void a::b::operator()(int)") == "void a::b::operator()"
    assert normalise("plain_kernel") == "plain_kernel"
    assert len(normalise("k" * 5000)) == LONGEST_NAME


def test_the_operator_tells_a_convolution_from_a_matrix_product() -> None:
    assert classify("ampere_sgemm_128x64_nn").operation == "gemm"
    assert classify("ampere_sgemm_128x64_nn", "aten::mm").operation == "gemm"
    assert classify("ampere_sgemm_128x64_nn", "aten::cudnn_convolution").operation == "convolution"


def test_agreement_of_names_with_operators_is_weighted_by_time() -> None:
    rows = [
        row("ampere_sgemm_128x64_nn", "aten::mm", 60),
        row("ampere_sgemm_128x64_nn", "aten::cudnn_convolution", 20),
        row("my_kernel", "aten::mine", 20),
    ]
    found = name_agreement(rows)
    assert (found.agreement, found.judged) == (0.75, 0.8)
    assert found.disagreements == [("ampere_sgemm_128x64_nn", "aten::cudnn_convolution", "gemm", 20)]


def test_the_yardstick_accepts_only_operations_that_rules_give() -> None:
    known = {rule.operation for rule in rules().rule}
    for each in rules().operator:
        assert set(each.operations) <= known
        re.compile(each.operator)


BAG, GEMM, CONV = "EmbeddingBag_updateOutputKernel_sum_mean", "nvjet_tst", "sm80_xmma_fprop_implicit_gemm"


@pytest.mark.parametrize(
    ("kernel", "paper", "covered", "all_compute"),
    [
        (BAG, True, True, True),
        (GEMM, False, False, True),
        (CONV, False, False, True),
        ("conv_depthwise2d_forward_kernel", True, False, True),
        ("_hstu_attn_fwd", True, False, True),
        ("pytorch_flash::flash_fwd_kernel", False, False, True),
        ("vectorized_elementwise_kernel", True, False, True),
        ("ncclDevKernel_AllReduce", False, False, False),
        ("Memcpy DtoD", False, False, False),
        ("my_kernel", False, False, False),
    ],
)
def test_policies(kernel: str, paper: bool, covered: bool, all_compute: bool) -> None:
    made = row(kernel, "aten::embedding_bag" if kernel == BAG else None)
    found = [find_policy(name).addressable(made) for name in ("paper", "covered", "all_compute")]
    assert found == [paper, covered, all_compute]
    assert list(policies()) == ["paper", "covered", "all_compute"]


def test_an_unknown_policy_is_named() -> None:
    with pytest.raises(UsageError, match="no policy 'mine'; there are paper, covered, all_compute"):
        find_policy("mine")


@pytest.mark.parametrize(
    ("problem", "made"),
    [
        ("EmbeddingBagSum", row(BAG, "aten::_embedding_bag")),
        ("TableBatchedEmbeddingBagSum", row(BAG, "aten::_embedding_bag", part="embedding")),
        ("TableBatchedEmbeddingBagSum", row("split_embedding_codegen_forward_unweighted_kernel")),
        ("QuantizedEmbeddingBag", row("nbit::INT8_split_embedding_codegen_forward_unweighted_kernel_small_L")),
        ("EmbeddingBagRowwiseAdagrad", row("split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel")),
        ("EmbeddingBagRowwiseAdagrad", row("compute_grad_weight_bags")),
        ("KeyedJaggedPermute", row("permute_2D_data_kernel", "fbgemm::permute_2D_sparse_data")),
        ("JaggedToPadded", row("jagged_dense", "fbgemm::jagged_to_padded_dense")),
        ("DotInteraction", row(GEMM, "aten::bmm", part="interaction")),
        ("LowRankCrossInteraction", row(GEMM, "aten::addmm", part="cross")),
        ("FactorizationMachine", row("reduce_kernel<1>", "aten::sum", part="factorization_machine")),
        ("TargetAttentionPooling", row(GEMM, "aten::addmm", part="target_attention")),
        (None, row(GEMM, "aten::addmm")),
        (None, row(GEMM, "aten::bmm", part="cross_entropy")),
        (None, row("Memcpy DtoD", "aten::copy_", part="embedding")),
    ],
)
def test_the_problem_that_stands_for_kernels(problem: str | None, made: TraceRow) -> None:
    found = stand_in(made)
    assert (found.problem if found else None) == problem


def test_every_stand_in_is_a_problem_and_compares_constants_that_it_has() -> None:
    problems = load_problems()
    for each in stand_ins():
        assert set(each.same) <= set(problems.find(each.problem).constants())
        assert each.reason
