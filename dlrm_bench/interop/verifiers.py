"""The problems as a taskset of `verifiers`: prompts out, answers in, the reward as the reward.

A package with this in it is a taskset by that package's name, for training and for `vf-eval`:

    from dlrm_bench.interop.verifiers import KernelTaskset

    __all__ = ["KernelTaskset"]
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from dlrm_bench.errors import MissingPackageError
from dlrm_bench.interop.answers import extract_code
from dlrm_bench.interop.generate import SCHEMA
from dlrm_bench.interop.prompts import write_prompt
from dlrm_bench.interop.reward import reward
from dlrm_bench.problems import open_problems
from dlrm_bench.records import Effort, Language, Plan, Precision, Template

try:
    import verifiers.v1 as vf
except ModuleNotFoundError as error:
    raise MissingPackageError(
        "this needs verifiers: pip install 'dlrm-bench[verifiers]', on Python 3.11 or newer"
    ) from error

__all__ = ["KernelTaskset"]


class KernelTaskConfig(vf.TaskConfig):
    """How answers are judged and timed; see `reward`."""

    device: str | None = None
    precision: Precision = "bf16"
    effort: Effort | None = "quick"
    baselines: list[str] | None = None
    timeout: float | None = None


class KernelConfig(vf.TasksetConfig):
    """Which problems, and what a model is told of them; see `generate`."""

    task: KernelTaskConfig = KernelTaskConfig()
    problems: str | None = None
    template: Template = "zero-shot"
    language: Language = "triton"


class KernelData(vf.TaskData):
    """A problem: `id` and `name` are the problem's own, `prompt` has the file."""


class KernelTask(vf.Task[KernelData, vf.State, KernelTaskConfig]):
    """Write a kernel for one problem."""

    @vf.reward
    async def kernel(self, trace: vf.Trace) -> float:
        """Return the reward of the last reply, and record what it is made of.

        Raises:
            TaskError: the machine failed, so that the answer is worth neither something nor nothing.
        """
        found = await asyncio.to_thread(
            reward,
            extract_code(trace.last_reply),
            int(self.data.id),
            device=self.config.device,
            precision=self.config.precision,
            effort=self.config.effort,
            baselines=self.config.baselines,
            timeout=self.config.timeout,
        )
        if found.reason == "not_judged":
            raise vf.TaskError(found.message)
        trace.record_metrics({"correct": float(found.value > 0), "speedup": found.speedup or 0.0})
        return found.value


class KernelTaskset(vf.Taskset[KernelTask, KernelConfig]):
    """One task a problem."""

    def load(self) -> Iterator[KernelTask]:
        """Yield the problems that the configuration names, in the order of their ids."""
        config = self.config
        plan = Plan(SCHEMA, "", config.template, config.language, config.task.precision, None, None, 1)
        for problem in open_problems(config.problems):
            [message] = write_prompt(problem, plan)
            yield KernelTask(KernelData(id=str(problem.id), name=problem.name, prompt=message.content), config.task)
