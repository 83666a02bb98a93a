"""What all records have in common."""

from __future__ import annotations

from typing import Literal

import msgspec

Size = Literal["full", "small"]
Precision = Literal["fp32", "fp16", "bf16"]
Family = Literal["embedding bag", "interaction", "pooling"]
Bound = Literal["memory", "matrix"]
Library = Literal["fbgemm", "torchrec", "composition"]
Constant = int | float | list[int | float]


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A piece of data on disk or on the wire: immutable, and strict about what it is made from."""
