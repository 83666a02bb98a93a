"""Answers of language models, and what they are worth."""

from __future__ import annotations

from typing import Literal, get_args

from dlrm_bench.records.base import Precision, Record, Size
from dlrm_bench.records.measurement import Effort
from dlrm_bench.records.problem import ProblemCard
from dlrm_bench.records.projection import Projection
from dlrm_bench.records.result import Result
from dlrm_bench.records.verdict import ReasonKind

Template = Literal["zero-shot", "hardware", "example"]
TEMPLATES: tuple[Template, ...] = get_args(Template)
Language = Literal["triton", "cuda"]
LANGUAGES: tuple[Language, ...] = get_args(Language)


class Hardware(Record, frozen=True):
    """A GPU as a prompt describes it.

    Attributes:
        name: what it is called.
        multiprocessors: how many.
        memory_gb: size of its memory, 10^9 bytes.
        bandwidth_gb_s: of that memory, 10^9 bytes a second.
        bf16_tflops: dense matrix rate in bfloat16, 10^12 operations a second.
        l2_mb: size of its L2 cache, 10^6 bytes.
        shared_kb: shared memory that a block may have, 1024 bytes.
        measured: whether the two rates were measured; otherwise they are the vendor's.
    """

    name: str
    multiprocessors: int
    memory_gb: float
    bandwidth_gb_s: float
    bf16_tflops: float
    l2_mb: float
    shared_kb: float
    measured: bool = False


class Plan(Record, frozen=True):
    """What a folder of answers was asked with: `generation.json`. Neither the key nor the address is in it.

    Attributes:
        schema: version of this layout.
        model: name of the model, as the server knows it.
        template: which prompt.
        language: what kernels were to be written in.
        precision: dtype of weights and floating inputs that the prompt names.
        temperature: of the sampling; the server's own if `None`.
        most_tokens: longest answer; the server's own limit if `None`.
        round: 1, or higher where the prompt had the verdict on the round before.
        hardware: the GPU that the prompt describes, if it does.
    """

    schema: int
    model: str
    template: Template
    language: Language
    precision: Precision
    temperature: float | None
    most_tokens: int | None
    round: int
    hardware: Hardware | None = None


class Message(Record, frozen=True):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Generation(Record, frozen=True):
    """One answer of a model, kept beside the code that was taken from it.

    Attributes:
        schema: version of this layout.
        model: name of the model.
        problem: name of the problem.
        problem_id: its number.
        problem_hash: SHA-256 of its text.
        sample: number of the answer to this problem, from 0.
        round: as in the plan.
        prompt: what the model was told.
        answer: its answer as it came.
        reasoning: what it thought before, where the server tells that apart.
        finish_reason: why it stopped; `length` if it was cut off.
        defines_model: whether a `ModelNew` was found in the answer.
        prompt_tokens: by the server's count, where it gives one.
        answer_tokens: likewise.
        attempts: how often the server was asked.
        seconds: how long the last attempt took.
        time: when it ended, ISO 8601 in UTC.
    """

    schema: int
    model: str
    problem: str
    problem_id: int
    problem_hash: str
    sample: int
    round: int
    prompt: list[Message]
    answer: str
    reasoning: str | None
    finish_reason: str
    defines_model: bool
    prompt_tokens: int | None
    answer_tokens: int | None
    attempts: int
    seconds: float
    time: str


class Estimate(Record, frozen=True):
    """A figure over problems with the ends of its bootstrap 95% interval, problems drawn again."""

    value: float
    low: float
    high: float


class ModelScore(Record, frozen=True):
    """A model over the problems that it was asked.

    Rates are for one sample of each problem: the share of a problem's samples, averaged over the problems. The best
    baseline is the fastest right one beside each sample.

    Attributes:
        model: its name.
        problems: how many problems.
        samples: how many samples in all.
        fewest_samples: of the problem that has fewest.
        correct: share that is right.
        win_rate: share that is faster than the best baseline, its whole interval beyond the noise; `None`, as what
            follows from times below, if right ones were not timed.
        median_speedup_of_wins: over the best baseline, of all samples that win.
        fast_p: for each p, the share that is right, timed, and more than p times as fast as the best baseline.
        pass_at_k: for each k, the chance that one of k samples is right, without bias from the samples that there are.
        problems_correct: problems with a right sample.
        problems_won: problems with a sample that wins.
        median_speedup_of_problems_won: over those, of the fastest sample each.
        projection: what each problem's fastest sample would do to the trace asked for, if there was one.
    """

    model: str
    problems: int
    samples: int
    fewest_samples: int
    correct: Estimate
    win_rate: Estimate | None
    median_speedup_of_wins: Estimate | None
    fast_p: dict[str, Estimate]
    pass_at_k: dict[str, Estimate]
    problems_correct: int
    problems_won: int | None
    median_speedup_of_problems_won: float | None
    projection: Projection | None = None


Cheating = Literal["wrong_while_timed", "time_not_explained", "time_impossible"]
CHEATING: tuple[Cheating, ...] = get_args(Cheating)
"""Reasons that an honest mistake does not lead to: to be right only when looked at, or to tamper with the time."""


class RewardRequest(Record, frozen=True):
    """What the process that works out rewards is asked.

    Attributes:
        source: the submission.
        problem_id: the problem's number.
        problem: its name.
        problem_level: KernelBench's level of it.
        code: its file's text.
        card: its sidecar, if it has one.
        device: where; the first GPU, or the CPU, if `None`.
        size: which size; `full` on a GPU and `small` on a CPU if `None`.
        precision: dtype of weights and floating inputs; bf16 on a GPU and fp32 on a CPU if `None`.
        effort: how long a right submission is timed; `None` to judge only.
        baselines: what it is timed beside.
        cases: which cases are judged; all if `None`.
        seconds: for the submission as a whole; the usual limits if `None`.
        memory_bytes: that it may allocate.
    """

    source: str
    problem_id: int
    problem: str
    problem_level: int
    code: str
    card: ProblemCard | None
    device: str | None
    size: Size | None
    precision: Precision | None
    effort: Effort | None
    baselines: tuple[str, ...]
    cases: tuple[str, ...] | None
    seconds: float | None
    memory_bytes: int


class RewardReply(Record, frozen=True):
    """What it answers: a result; or why there is none, be it that nothing could run here (`refused`) or that one time.

    Attributes:
        result: the evaluation.
        refused: what makes no sense, or cannot run on this machine, whatever the submission.
        failed: what went wrong.
    """

    result: Result | None = None
    refused: str | None = None
    failed: str | None = None


class Reward(Record, frozen=True):
    """What a trainer gets for one submission.

    Attributes:
        value: the number.
        reason: what it is for: `correct`; the first reason why it is not correct; `not_timed` if it is, but no baseline
            could be timed beside it; `not_judged` if the machine failed, so that the value says nothing.
        message: the same in one line for a person.
        speedup: over the best baseline, lower end of the interval; `None` unless it was timed.
        result: all that is known; `None` if nothing could be judged.
    """

    value: float
    reason: ReasonKind | Literal["correct", "not_timed", "not_judged"]
    message: str
    speedup: float | None = None
    result: Result | None = None
