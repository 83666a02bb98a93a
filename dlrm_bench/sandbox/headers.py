"""Hand on what torch.compile precompiles for a CPU: C++ headers, the same for every kernel, ten seconds in each child.

Only from trusted code to trusted code: whoever writes a header writes what others compile.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

HEADERS = "torchinductor_*/precompiled_headers/*.h*"
"""Where torch puts them below the temporary folder: its caches' own setting does not move them."""


class HeaderStore:
    """Headers that one child has precompiled, for the next."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="dlrm_bench_headers_"))

    def keep(self, workspace: Path) -> None:
        """Take over what a child has precompiled in its workspace."""
        _link(workspace, self._folder)

    def lend(self, workspace: Path) -> None:
        """Put what is kept into a child's workspace."""
        _link(self._folder, workspace)

    def close(self) -> None:
        """Remove what is kept."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _link(source: Path, target: Path) -> None:
    for path in source.glob(HEADERS):
        to = target / path.relative_to(source)
        to.parent.mkdir(parents=True, exist_ok=True)
        if not to.exists():
            os.link(path, to)
