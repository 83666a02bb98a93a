"""The command line: one module a command, loaded when it is called, and wiring only."""

from __future__ import annotations

import importlib
import sys

import click

import dlrm_bench
from dlrm_bench.cli.output import print_error
from dlrm_bench.errors import DlrmBenchError

COMMANDS = {
    "list": "The problems: id, name, family, bound.",
    "show": "What a problem computes, its sizes and its cases.",
    "check": "Is this kernel right? The verdict.",
    "time": "How fast is it beside eager, inductor and the library?",
    "eval": "Check and time many submissions.",
    "report": "Sum up runs.",
    "audit": "Which problems does a trivial output pass?",
    "profile": "Take a trace of a workload.",
    "trace": "What is in a trace, and how much of it is addressable?",
    "project": "What would results do to a workload?",
    "splice": "Put kernels into a workload and time it end to end.",
    "generate": "Have a language model write kernels.",
    "score": "What language models' samples are worth.",
    "export": "Write the problems for Hugging Face or KernelBench.",
    "doctor": "What is installed, what is missing, and how to get it.",
}
INTERRUPTED = 130
EPILOG = """Exit codes: 0 done, and correct where one submission is judged; 1 judged, and not correct; 2 usage;
3 cannot run here; 130 interrupted. Results are on stdout, everything else on stderr."""


class Commands(click.Group):
    """A group whose commands are imported only when one is called."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the commands in the order of a first visit."""
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Import one command."""
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"dlrm_bench.cli.{name}_command").command
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(dlrm_bench.__version__, prog_name="dlrm-bench")
def cli() -> None:
    """Is a recommender kernel right, is it faster than what people run, and by how much?"""


def main() -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command line on these arguments and return its exit code."""
    as_json = "--json" in arguments
    try:
        code = cli.main(arguments, prog_name="dlrm-bench", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f" (`{context.command_path} --help` shows what is allowed)" if context is not None else ""
        print_error("usage", error.format_message() + hint, as_json)
        return 2
    except DlrmBenchError as error:
        print_error(error.kind, str(error), as_json)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
