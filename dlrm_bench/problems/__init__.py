"""Problems, and the places that they come from."""

from dlrm_bench.problems.places import KERNELBENCH, load_problems, open_problem, open_problems
from dlrm_bench.problems.problem import CARDLESS_CASES, DEFAULT_CASE, Problem, ProblemSet

__all__ = [
    "CARDLESS_CASES",
    "DEFAULT_CASE",
    "KERNELBENCH",
    "Problem",
    "ProblemSet",
    "load_problems",
    "open_problem",
    "open_problems",
]
