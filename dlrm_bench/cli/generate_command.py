"""`dlrm-bench generate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dlrm_bench.cli.options import json_option, make_settings, problems_option, run_options, timing_options
from dlrm_bench.cli.output import print_json
from dlrm_bench.cli.progress import AddBar, progress_bars
from dlrm_bench.errors import UsageError
from dlrm_bench.records import LANGUAGES, TEMPLATES, Generation, Hardware, Language, Plan, Template

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dlrm_bench.evaluate import Settings
    from dlrm_bench.interop.samples import SampleFolder
    from dlrm_bench.problems import ProblemSet
    from dlrm_bench.records import Precision, Result


@click.command("generate")
@click.option("--model", required=True, help="Name of the model, as the server knows it.")
@click.option(
    "--base-url", default="https://api.openai.com/v1", show_default=True, help="Of any server with OpenAI's API."
)
@click.option("--api-key-env", help="Environment variable with the key; OPENAI_API_KEY, if that is set.")
@problems_option
@click.option("-o", "--output", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder to fill.")
@click.option("--samples", type=click.IntRange(min=1), default=1, show_default=True, help="Answers for each problem.")
@click.option(
    "--rounds", type=click.IntRange(min=1), default=1, show_default=True, help="Tries, with feedback between."
)
@click.option("--temperature", type=click.FloatRange(min=0), help="Of the sampling; the server's own if left out.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Longest answer; the server's own if left out.")
@click.option("--prompt", type=click.Choice(TEMPLATES), default="zero-shot", show_default=True, help="What it is told.")
@click.option("--language", type=click.Choice(LANGUAGES), default="triton", show_default=True, help="To write in.")
@click.option("--hardware", help="GPU that the hardware prompt describes, such as h200; measured here if left out.")
@click.option("--concurrency", type=click.IntRange(min=1), default=8, show_default=True, help="Questions at a time.")
@click.option("--attempts", type=click.IntRange(min=1), default=6, show_default=True, help="For each question.")
@timing_options("quick", ("none", "quick", "standard", "thorough"))
@run_options
@json_option
def command(
    model: str,
    base_url: str,
    api_key_env: str | None,
    problems: ProblemSet,
    output: Path,
    samples: int,
    rounds: int,
    temperature: float | None,
    max_tokens: int | None,
    prompt: Template,
    language: Language,
    hardware: str | None,
    concurrency: int,
    attempts: int,
    precision: Precision | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Have a model write kernels: samples of every problem, in a folder that `score` and `eval` open.

    What is there already is not asked again, so that the same command goes on after an interruption, or with more
    samples. With --rounds, verdict and time of a try go into the prompt of the next, and each round has a folder in
    DIR; the options on devices, limits and timing are for these evaluations.
    """
    from dlrm_bench.interop.generate import SCHEMA, generate
    from dlrm_bench.interop.server import Server, key_from_environment

    server = Server(base_url, key_from_environment(api_key_env), concurrency, attempts)
    settings = _settings(problems, precision, options) if rounds > 1 else None
    plan = Plan(
        schema=SCHEMA,
        model=model,
        template=prompt,
        language=language,
        precision=settings.precision if settings else precision or "bf16",
        temperature=temperature,
        most_tokens=max_tokens,
        round=1,
        hardware=_hardware(prompt, hardware, output, rounds, options["device"]),
    )
    made: list[Generation] = []
    with progress_bars() as add_bar:
        answered = add_bar("answers", len(problems) * samples * rounds)
        evaluate = _evaluation(settings, add_bar) if settings else None

        def done(generation: Generation) -> None:
            made.append(generation)
            answered()
            if as_json:
                print_json(generation)

        try:
            generate(problems, plan, server, output, samples=samples, rounds=rounds, evaluate=evaluate, done=done)
        except KeyboardInterrupt:
            click.echo(f"interrupted: {len(made)} answers more are in {output}; the same command goes on", err=True)
            raise
    if not as_json:
        without = sum(not each.defines_model for each in made)
        click.echo(f"{len(made)} new answers in {output}, {without} of them without a ModelNew")
        elsewhere = f" --problems {problems.source}" if problems.source != "bundled" else ""
        click.echo(f"next: dlrm-bench score {output}{elsewhere}")


def _settings(problems: ProblemSet, precision: Precision | None, options: dict[str, Any]) -> Settings:
    return make_settings(**options, precision=precision, carded=any(problem.card for problem in problems))


def _hardware(prompt: Template, name: str | None, output: Path, rounds: int, device: str | None) -> Hardware | None:
    from dlrm_bench.interop.prompts import measured_hardware, named_hardware
    from dlrm_bench.interop.samples import round_folder

    if prompt != "hardware":
        if name is not None:
            raise UsageError(f"the prompt {prompt} does not describe a GPU; leave --hardware out, or --prompt hardware")
        return None
    if name is not None:
        return named_hardware(name)
    before = round_folder(output, 1, rounds).plan
    if before is not None and before.hardware is not None:
        # Measured anew, the rates would be others, and the folder one of another plan.
        return before.hardware
    from dlrm_bench.environment import open_device

    return measured_hardware(open_device(device))


def _evaluation(settings: Settings, add_bar: AddBar) -> Callable[[SampleFolder, ProblemSet], Sequence[Result]]:
    def evaluate(folder: SampleFolder, problems: ProblemSet) -> Sequence[Result]:
        missing = folder.missing(problems)
        evaluated = add_bar(f"evaluations of {folder.path.name}", len(missing))
        for _ in folder.evaluate(missing, settings):
            evaluated()
        return folder.results(problems)

    return evaluate
