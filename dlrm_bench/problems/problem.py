"""A problem: a KernelBench-format file, its card of facts, and the sizes and cases that it is judged on."""

from __future__ import annotations

import ast
import difflib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dlrm_bench.errors import UnknownProblemError, UsageError
from dlrm_bench.records import Constant, ProblemCard, Size

DEFAULT_CASE = "default"
CARDLESS_CASES = (DEFAULT_CASE, "scaled", "wide")
"""Cases of a problem that says nothing of its constants: other values of the same shapes (correctness.variations)."""


@dataclass(frozen=True)
class Problem:
    """One problem.

    Attributes:
        id: its number within the level, as in the file's name.
        name: its name, as in the file's name after the number.
        code: the file's text: what a model is shown, and what other harnesses run.
        card: the sidecar of facts; `None` for a problem that came without one.
        level: KernelBench's level, by which its runs/ files tell problems of equal ids apart.
    """

    id: int
    name: str
    code: str
    card: ProblemCard | None = None
    level: int = 1

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the text, by which records name the version of the problem that was run."""
        return hashlib.sha256(self.code.encode()).hexdigest()

    @cached_property
    def defaults(self) -> Mapping[str, Constant]:
        """The module constants as they stand in the file."""
        return _module_constants(self.code)

    @property
    def cases(self) -> tuple[str, ...]:
        """Names of all cases, the default one first."""
        return (DEFAULT_CASE, *(case.name for case in self.card.cases)) if self.card else CARDLESS_CASES

    def overrides(self, size: Size = "full", case: str = DEFAULT_CASE) -> dict[str, Constant]:
        """Return the constants that a size and a case change, the case's last.

        Raises:
            UsageError: the problem has no such case, or no small size.
        """
        if self.card is None:
            if size == "small" or case not in CARDLESS_CASES:
                raise UsageError(f"{self.name} has no card: it has size full, and cases {', '.join(CARDLESS_CASES)}")
            return {}
        changed = dict(self.card.small) if size == "small" else {}
        if case != DEFAULT_CASE:
            known = {each.name: each for each in self.card.cases}
            if case not in known:
                raise UsageError(f"{self.name} has no case {case!r}; it has {', '.join(self.cases)}")
            changed.update(known[case].set)
        return changed

    def constants(self, size: Size = "full", case: str = DEFAULT_CASE) -> dict[str, Constant]:
        """Return every module constant, with the changes of `size` and `case` made."""
        return {**self.defaults, **self.overrides(size, case)}

    def namespace(self, size: Size = "full", case: str = DEFAULT_CASE) -> dict[str, Any]:
        """Run the file's text in a namespace of its own and set the constants of `size` and `case`.

        Imports torch. The text is trusted: it is the problem, not a submission.

        Returns:
            The namespace, with `Model`, `get_inputs` and `get_init_inputs`.
        """
        changed = self.overrides(size, case)
        names: dict[str, Any] = {"__name__": f"dlrm_bench_problem_{self.id}"}
        exec(compile(self.code, f"{self.name}.py", "exec"), names)
        names.update(changed)
        return names


@dataclass(frozen=True)
class ProblemSet(Sequence[Problem]):
    """Problems in the order of their ids, found by id or by name."""

    problems: tuple[Problem, ...]
    source: str = field(default="bundled")

    def __getitem__(self, index: Any) -> Any:
        return self.problems[index]

    def __len__(self) -> int:
        return len(self.problems)

    def find(self, wanted: str | int) -> Problem:
        """Return the problem with this id or name; letter case does not matter.

        Raises:
            UnknownProblemError: with the nearest names.
        """
        text = str(wanted).strip()
        by_name = {problem.name.lower(): problem for problem in self.problems}
        by_id = {str(problem.id): problem for problem in self.problems}
        found = by_id.get(text.lstrip("0")) or by_name.get(text.lower())
        if found is None:
            near = [by_name[name].name for name in difflib.get_close_matches(text.lower(), by_name, n=3, cutoff=0.4)]
            others = "`dlrm-bench list` shows them all" if self.source == "bundled" else f"{self.source} has others"
            hint = f"did you mean {' or '.join(near)}?" if near else others
            raise UnknownProblemError(f"no problem {text!r}; {hint}")
        return found


def _module_constants(code: str) -> dict[str, Constant]:
    constants = {}
    for statement in ast.parse(code).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            if name.isupper():
                try:
                    constants[name] = ast.literal_eval(statement.value)
                except ValueError:
                    continue
    return constants
