from __future__ import annotations

import getpass
import socket

import msgspec
import pytest
import torch

import dlrm_bench
from dlrm_bench.environment import default_precision, default_size, describe, open_device
from dlrm_bench.errors import NoDeviceError


def test_the_cpu_opens_with_its_defaults() -> None:
    device = open_device("cpu")
    assert (device.type, default_size(device), default_precision(device)) == ("cpu", "small", "fp32")


def test_a_gpu_has_other_defaults() -> None:
    device = torch.device("cuda", 0)
    assert (default_size(device), default_precision(device)) == ("full", "bf16")


@pytest.mark.gpu
def test_the_first_gpu_opens_unless_another_is_named() -> None:
    assert open_device(None) == open_device("cuda") == torch.device("cuda", 0)


@pytest.mark.parametrize("name", ["cuda:99", "meta", "mps", "abacus"])
def test_a_device_that_is_not_here_is_refused_with_its_name(name: str) -> None:
    with pytest.raises(NoDeviceError, match=name):
        open_device(name)


def test_an_environment_names_versions_and_neither_host_nor_user() -> None:
    environment = describe(torch.device("cpu"))
    assert environment.torch == torch.__version__
    assert environment.dlrm_bench == dlrm_bench.__version__
    assert environment.device.startswith("CPU")
    words = msgspec.json.encode(environment).decode().replace('"', " ").split()
    assert not {socket.gethostname(), getpass.getuser()} & set(words)
