from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def _load() -> ModuleType:
    # Tests are imported one by one (importmode importlib), so that a helper beside them is in no package.
    spec = importlib.util.spec_from_file_location("chat_server", Path(__file__).parent / "chat_server.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def chat_server() -> Iterator[Callable[..., Any]]:
    """Start a chat server that answers as a function of the question's number and body says."""
    started: list[Any] = []

    def start(answer: Callable[[int, dict[str, Any]], str]) -> Any:
        started.append(_load().ChatServer(answer))
        return started[-1]

    yield start
    for server in started:
        server.close()
