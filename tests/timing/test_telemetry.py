"""The card's own word is there on a GPU, and nothing stands in for it elsewhere."""

from __future__ import annotations

import pytest
import torch

from dlrm_bench.timing.telemetry import open_sensors


def test_a_cpu_has_no_sensors() -> None:
    with open_sensors(torch.device("cpu")) as sensors:
        assert sensors is None


@pytest.mark.gpu
def test_a_gpu_says_how_it_is() -> None:
    pytest.importorskip("pynvml")
    with open_sensors(torch.device("cuda", 0)) as sensors:
        assert sensors is not None
        sensors.look(0)
        seen = sensors.telemetry()
    assert seen.before.sm_clock_mhz > 0
    assert 0 < seen.after.temperature_c < 120
    assert set(seen.slowed_rounds) <= {0}
