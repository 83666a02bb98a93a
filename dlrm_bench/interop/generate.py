"""Have a model write kernels: any server that speaks OpenAI's chat completions."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dlrm_bench.errors import CannotRunError
from dlrm_bench.interop.answers import defines_model, extract_code
from dlrm_bench.interop.prompts import write_prompt
from dlrm_bench.interop.samples import SampleFolder, round_folder
from dlrm_bench.interop.server import Answer, Asker, Server, UnansweredError, open_client
from dlrm_bench.problems import Problem, ProblemSet
from dlrm_bench.records import Generation, Message, Plan, Result

SCHEMA = 1
Evaluate = Callable[[SampleFolder, ProblemSet], Sequence[Result]]
Done = Callable[[Generation], None]


def generate(
    problems: ProblemSet,
    plan: Plan,
    server: Server,
    path: Path,
    *,
    samples: int = 1,
    rounds: int = 1,
    evaluate: Evaluate | None = None,
    done: Done = lambda generation: None,
) -> None:
    """Ask a model for every sample that is not there yet, and write each answer as it comes.

    Args:
        problems: which problems.
        plan: how to ask.
        server: whom.
        path: folder to write, or to go on in; with several rounds, each has a folder in it.
        samples: answers for each problem.
        rounds: how often; from the second on the prompt has the last try with its verdict and time.
        evaluate: evaluates what is in a folder between rounds, and returns all its results.
        done: called with each new answer.

    Raises:
        UsageError: the folder holds answers that were asked in another way.
        MissingPackageError: openai is not installed.
        CannotRunError: the server refuses, or gave no answer to some of the questions.
    """
    last: dict[tuple[int, int], tuple[str, Result]] = {}
    for number in range(1, rounds + 1):
        folder = round_folder(path, number, rounds)
        round_plan = msgspec.structs.replace(plan, round=number)
        folder.begin(round_plan)
        wanted = [
            Question(problem, sample, write_prompt(problem, round_plan, last.get((problem.id, sample))))
            for sample in range(samples)
            for problem in problems
            if folder.read(problem, sample) is None
        ]
        if wanted:
            asyncio.run(_ask_all(wanted, round_plan, server, folder, done))
        if number < rounds:
            assert evaluate is not None
            last = _tries(folder, problems, samples, evaluate(folder, problems))


@dataclass(frozen=True)
class Question:
    """What is asked for one sample."""

    problem: Problem
    sample: int
    prompt: list[Message]


def _tries(
    folder: SampleFolder, problems: ProblemSet, samples: int, results: Sequence[Result]
) -> dict[tuple[int, int], tuple[str, Result]]:
    found = {(each.problem_id, each.submission): each for each in results}
    tries = {}
    for problem in problems:
        for sample in range(samples):
            file = folder.code_file(problem, sample)
            tries[problem.id, sample] = (file.read_text(), found[problem.id, file.stem])
    return tries


async def _ask_all(questions: Sequence[Question], plan: Plan, server: Server, folder: SampleFolder, done: Done) -> None:
    refused: list[str] = []
    async with open_client(server) as client:
        asker = Asker(client, plan, server)

        async def ask(question: Question) -> None:
            try:
                answer = await asker.ask(question.prompt)
            except UnansweredError as error:
                refused.append(f"{question.problem.name}, sample {question.sample}: {error}")
                return
            code = extract_code(answer.text)
            generation = _record(question, plan, answer, code)
            folder.add(question.problem, generation, code)
            done(generation)

        await _gather([ask(question) for question in questions])
    if refused:
        raise CannotRunError(
            f"{len(refused)} of {len(questions)} questions have no answer ({refused[0]}); "
            f"the others are in {folder.path}, and the same command asks for what is missing"
        )


async def _gather(coroutines: list[Coroutine[Any, Any, None]]) -> None:
    """Run them side by side; the first error ends them all."""
    tasks = [asyncio.ensure_future(each) for each in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _record(question: Question, plan: Plan, answer: Answer, code: str) -> Generation:
    return Generation(
        schema=SCHEMA,
        model=plan.model,
        problem=question.problem.name,
        problem_id=question.problem.id,
        problem_hash=question.problem.hash,
        sample=question.sample,
        round=plan.round,
        prompt=question.prompt,
        answer=answer.text,
        reasoning=answer.reasoning or None,
        finish_reason=answer.finish_reason,
        defines_model=defines_model(code),
        prompt_tokens=answer.prompt_tokens,
        answer_tokens=answer.answer_tokens,
        attempts=answer.attempts,
        seconds=answer.seconds,
        time=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    )
