"""Every attack that the tests try, and who catches it, as a page.

    python -m benchmarks.attacks > docs/attacks.md

Each file in tests/attacks/submissions is one attack: its docstring says which row of the taxonomy it stands for and
what it does, its `EXPECT` how it must end. The files are read, not imported.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parents[1] / "tests" / "attacks" / "submissions"
GROUPS = {"A": "Wrong output", "B": "State and caching", "C": "Timing", "D": "Tampering"}
METRICS = {"relative_l2", "worst_row", "centred_l2", "worst_element"}
HEAD = """# Attacks, and who catches them

One file each in [tests/attacks/submissions/](../tests/attacks/submissions/); `python -m benchmarks.attacks` prints this
page. The metrics are `relative_l2`, `worst_row`, `centred_l2` and `worst_element` of [correctness](correctness.md); the
other names are a result's `reason`. Where several are named, which one comes first is a matter of inputs, system or
device. "Gains nothing": it is judged and timed like any other, and credited with no more than it does.
"""


class Attack(NamedTuple):
    """One row of the page."""

    row: str
    name: str
    does: str
    caught_by: str


def read(path: Path) -> Attack:
    """Return what a file says of itself."""
    tree = ast.parse(path.read_text())
    [expected] = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EXPECT"
    ]
    row, does = " ".join((ast.get_docstring(tree) or "").split()).split(": ", maxsplit=1)
    return Attack(row, path.stem, does.rstrip("."), caught_by(expected["reasons"]))


def caught_by(reasons: Sequence[str]) -> str:
    """Return who says no, by the reasons that may be given."""
    if not reasons:
        return "gains nothing"
    metrics = ["metrics"] if set(reasons) & METRICS else []
    return ", ".join([*metrics, *(f"`{reason}`" for reason in reasons if reason not in METRICS)])


def page() -> str:
    """Return the page, as Markdown."""
    attacks = sorted(map(read, FOLDER.glob("*.py")), key=lambda each: (each.row[0], int(each.row[1:]), each.name))
    parts = [HEAD.rstrip()]
    for letter, title in GROUPS.items():
        of_group = [each for each in attacks if each.row.startswith(letter)]
        parts += [f"\n## {title}\n", "| row | attack | what it does | caught by |", "| --- | --- | --- | --- |"]
        parts += [f"| {each.row} | `{each.name}` | {each.does} | {each.caught_by} |" for each in of_group]
    return "\n".join(parts)


if __name__ == "__main__":
    print(page())
