from __future__ import annotations

import ast
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dlrm_bench.errors import MissingFileError, UnknownProblemError, UsageError
from dlrm_bench.problems import CARDLESS_CASES, DEFAULT_CASE, Problem, ProblemSet, load_problems

HELPERS = ("draw_lengths", "draw_rows", "Index", "as_index")
INDEXED = [problem for problem in load_problems() if "as_index" in problem.code]
RANDOM_WEIGHTS = [problem for problem in load_problems() if "torch.rand" in problem.code.split("def forward")[0]]
SAMPLES, ROWS = 32, 500

by_name = {"ids": lambda problem: problem.name}


def few_samples(problem: Problem) -> dict[str, Any]:
    """Return the full size's namespace with fewer samples and rows: what one output element holds is unchanged."""
    names = problem.namespace()
    rows = names.get("ROWS", ROWS)
    names["ROWS"] = [min(each, ROWS) for each in rows] if isinstance(rows, list) else min(rows, ROWS)
    names["BATCH"] = SAMPLES
    return names


# --- the set -------------------------------------------------------------------------------------


def test_twelve_problems_are_bundled_in_the_order_of_their_ids(problems: ProblemSet) -> None:
    assert [problem.id for problem in problems] == list(range(1, 13))
    assert len({problem.name for problem in problems}) == 12


@pytest.mark.parametrize(
    "wanted", [3, "3", "03", " 3 ", "TableBatchedEmbeddingBagMean", "tablebatchedembeddingbagMEAN"]
)
def test_a_problem_is_found_by_id_and_by_name_in_any_letter_case(problems: ProblemSet, wanted: str | int) -> None:
    assert problems.find(wanted).name == "TableBatchedEmbeddingBagMean"


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ("DotInteractoin", "did you mean DotInteraction"),
        ("embeddingbagsums", "did you mean EmbeddingBagSum"),
        ("13", "`dlrm-bench list`"),
        ("0", "`dlrm-bench list`"),
        ("", "`dlrm-bench list`"),
    ],
)
def test_an_unknown_problem_is_refused_with_a_hint(problems: ProblemSet, wanted: str, hint: str) -> None:
    with pytest.raises(UnknownProblemError, match=hint):
        problems.find(wanted)


def test_the_hash_is_that_of_the_file(problem: Problem, root: Path) -> None:
    file = root / "problems" / "level1" / f"{problem.id}_{problem.name}.py"
    assert problem.hash == hashlib.sha256(file.read_bytes()).hexdigest()


# --- other folders -------------------------------------------------------------------------------


@pytest.fixture
def copied(tmp_path: Path, root: Path) -> Path:
    level = tmp_path / "level1"
    level.mkdir()
    for suffix in ("py", "toml"):
        shutil.copy(root / f"problems/level1/7_DotInteraction.{suffix}", level)
    return tmp_path


def test_problems_of_another_folder_open(copied: Path, problems: ProblemSet) -> None:
    assert list(load_problems(copied)) == [problems.find("DotInteraction")]


def test_files_that_are_not_named_as_problems_are_left_out(copied: Path) -> None:
    (copied / "level1" / "notes_on.py").write_text("")
    assert len(load_problems(copied)) == 1


@pytest.mark.parametrize("level", [1, 2])
def test_a_folder_without_problems_is_refused(tmp_path: Path, level: int) -> None:
    (tmp_path / "level1").mkdir()
    with pytest.raises(MissingFileError, match=str(tmp_path / f"level{level}")):
        load_problems(tmp_path, level)


@pytest.mark.parametrize(
    ("line", "complaint"), [("speed = 3", "unknown field `speed`"), ("title = [", "level1"), ("title = 3", "Expected")]
)
def test_a_sidecar_that_does_not_decode_is_refused_with_its_path(copied: Path, line: str, complaint: str) -> None:
    sidecar = copied / "level1" / "7_DotInteraction.toml"
    sidecar.write_text(f"{line}\n" + sidecar.read_text().replace('title = "Dot interaction"\n', ""))
    with pytest.raises(UsageError, match=complaint) as caught:
        load_problems(copied)
    assert str(sidecar) in str(caught.value)


def test_a_problem_without_a_sidecar_has_other_inputs_for_cases(copied: Path) -> None:
    (copied / "level1" / "7_DotInteraction.toml").unlink()
    bare = load_problems(copied).find(7)
    assert bare.cases == CARDLESS_CASES
    assert all(bare.constants(case=case) == bare.defaults for case in bare.cases)
    for asked in ({"size": "small"}, {"case": "odd_dim"}):
        with pytest.raises(UsageError, match="has no card"):
            bare.overrides(**asked)


# --- constants, sizes and cases ------------------------------------------------------------------


def test_a_problem_has_eight_cases_of_different_names_beyond_the_default(problem: Problem) -> None:
    assert problem.cases[0] == DEFAULT_CASE
    assert len(problem.cases) > 8
    assert len(set(problem.cases)) == len(problem.cases)


def test_sizes_and_cases_set_constants_of_the_file_to_values_of_the_same_type(problem: Problem) -> None:
    assert problem.card is not None
    for changes in (problem.card.small, *(case.set for case in problem.card.cases)):
        assert {name: type(value) for name, value in changes.items()} == {
            name: type(problem.defaults[name]) for name in changes
        }


def test_a_case_overrides_the_size_and_the_size_the_file(problems: ProblemSet) -> None:
    constants = problems.find("EmbeddingBagSum").constants("small", "odd_dim")
    assert (constants["DIM"], constants["ROWS"], constants["ZIPF_EXPONENT"]) == (37, 1000, 1.05)


def test_a_namespace_holds_the_overridden_constants(problem_case: tuple[Problem, str]) -> None:
    problem, case = problem_case
    names = problem.namespace("small", case)
    expected = problem.constants("small", case)
    assert {name: names[name] for name in expected} == expected


def test_namespaces_share_nothing(problems: ProblemSet) -> None:
    problem = problems.find("TableBatchedEmbeddingBagSum")
    problem.namespace()["ROWS"].clear()
    assert len(problem.namespace()["ROWS"]) == 26


def test_an_unknown_case_is_refused_with_the_known_ones(problem: Problem) -> None:
    with pytest.raises(UsageError, match=f"no case 'nope'; it has {DEFAULT_CASE}, {problem.cases[1]}"):
        problem.constants("small", "nope")


# --- the text of the files -----------------------------------------------------------------------


def test_module_constants_are_literals(problem: Problem) -> None:
    assigned = [node for node in ast.parse(problem.code).body if isinstance(node, ast.Assign)]
    literals = {ast.unparse(node.targets[0]): ast.literal_eval(node.value) for node in assigned}
    assert literals == problem.defaults


def test_a_problem_imports_torch_and_math_only(problem: Problem) -> None:
    imported = [node for node in ast.walk(ast.parse(problem.code)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    modules = {alias.name for node in imported if isinstance(node, ast.Import) for alias in node.names}
    assert len(imported) == len([node for node in imported if isinstance(node, ast.Import)])
    assert modules <= {"math", "torch", "torch.nn", "torch.nn.functional"}


def test_the_model_refers_to_no_module_constant(problem: Problem) -> None:
    (model,) = [node for node in ast.parse(problem.code).body if getattr(node, "name", None) == "Model"]
    names = {node.id for node in ast.walk(model) if isinstance(node, ast.Name)}
    assert "torch" in names
    assert not names & set(problem.defaults)


@pytest.mark.parametrize("helper", HELPERS)
def test_a_helper_reads_the_same_in_every_file_that_has_it(problems: ProblemSet, helper: str) -> None:
    texts = [
        ast.get_source_segment(problem.code, node)
        for problem in problems
        for node in ast.parse(problem.code).body
        if getattr(node, "name", None) == helper
    ]
    assert len(texts) > 4
    assert len(set(texts)) == 1


# --- KernelBench's harness -----------------------------------------------------------------------


@pytest.mark.parametrize("problem", INDEXED, **by_name)
def test_index_tensors_survive_the_cast_of_kernelbench(problem: Problem) -> None:
    inputs = problem.namespace("small")["get_inputs"]()
    indices = [each for each in inputs if each.dtype == torch.int64]
    assert indices
    for before in indices:
        cast = before.to(dtype=torch.bfloat16)
        placed = cast.to(device="cpu")
        assert cast.dtype == torch.int64
        assert type(placed) is torch.Tensor
        assert placed.tolist() == before.tolist()


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [
        (("cpu",), {}),
        ((torch.device("cpu"), torch.bfloat16), {}),
        ((), {"device": "cpu", "dtype": torch.bfloat16}),
        ((), {"device": torch.device("cpu"), "non_blocking": True}),
    ],
)
def test_an_index_moved_to_a_device_becomes_a_plain_integer_tensor(
    problems: ProblemSet, arguments: tuple[object, ...], keywords: dict[str, object]
) -> None:
    moved = problems.find(1).namespace("small")["as_index"](torch.arange(3)).to(*arguments, **keywords)
    assert (type(moved), moved.dtype, moved.tolist()) == (torch.Tensor, torch.int64, [0, 1, 2])


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 1e-2)], ids=["fp32", "bf16"])
@pytest.mark.parametrize("names_of", [few_samples, lambda problem: problem.namespace("small")], ids=["full", "small"])
def test_zeros_and_the_mean_fail_the_check_of_kernelbench(
    problem: Problem,
    draw: Callable[..., Any],
    names_of: Callable[[Problem], dict[str, Any]],
    dtype: torch.dtype,
    tolerance: float,
) -> None:
    right = draw(names_of(problem), dtype).output()
    mean = right.double().mean().item()
    assert torch.allclose(right, right.clone(), atol=tolerance, rtol=tolerance)
    for constant in (0, mean):
        assert not torch.allclose(right, torch.full_like(right, constant), atol=tolerance, rtol=tolerance)


# --- what the references compute -----------------------------------------------------------------


def test_a_reference_is_finite_and_leaves_its_inputs_alone(
    problem_case: tuple[Problem, str], draw: Callable[..., Any]
) -> None:
    problem, case = problem_case
    drawn = draw(problem.namespace("small", case))
    before = [each.clone() for each in drawn.inputs]
    output = drawn.output()
    assert output.isfinite().all()
    assert all(map(torch.equal, drawn.inputs, before))


def test_one_seed_gives_one_model_and_one_set_of_inputs(problem: Problem, draw: Callable[..., Any]) -> None:
    first, second = (draw(problem.namespace("small")) for _ in range(2))
    assert first.model.state_dict().keys() == second.model.state_dict().keys()
    assert all(map(torch.equal, first.model.state_dict().values(), second.model.state_dict().values()))
    assert torch.equal(first.output(), second.output())


def test_another_seed_gives_other_inputs(problem: Problem, draw: Callable[..., Any]) -> None:
    first, second = (draw(problem.namespace("small"), input_seed=seed) for seed in (1, 2))
    assert not any(map(torch.equal, first.inputs, second.inputs))


@pytest.mark.parametrize("problem", RANDOM_WEIGHTS, **by_name)
def test_another_seed_gives_another_model(problem: Problem, draw: Callable[..., Any]) -> None:
    first, second = (draw(problem.namespace("small"), model_seed=seed) for seed in (1, 2))
    assert not torch.equal(first.output(), second.output())


@pytest.mark.gpu
def test_a_reference_computes_on_a_gpu_what_it_computes_on_a_cpu(problem: Problem, draw: Callable[..., Any]) -> None:
    drawn = draw(problem.namespace("small"))
    expected = drawn.output()
    with torch.no_grad():
        output = drawn.model.cuda()(*[each.cuda() for each in drawn.inputs])
    torch.testing.assert_close(output.cpu(), expected, atol=1e-4, rtol=1e-4)
