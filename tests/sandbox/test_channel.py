"""Messages cross the channel whole, and nothing that is no message does."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from dlrm_bench.sandbox.messages import (
    MAX_MESSAGE_BYTES,
    Call,
    Channel,
    ChannelClosedError,
    ChannelTimeoutError,
    Done,
    Failed,
    GarbageError,
    Reply,
    Request,
    TensorRef,
    Timed,
)

Ends = tuple[Channel, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    with theirs:
        channel = Channel(ours)
        yield channel, theirs
        channel.close()


@pytest.mark.parametrize("message", [Done(), Failed("crash", "gone"), Timed([1.5, 2.0], 1, [-(2**63), 7])])
def test_a_reply_arrives_as_it_was_sent(ends: Ends, message: Reply) -> None:
    channel, other = ends
    Channel(other).send(message)
    assert channel.receive(Reply, 1.0) == message


def test_a_request_with_tensors_arrives_as_it_was_sent(ends: Ends) -> None:
    channel, other = ends
    message = Call([TensorRef(512, "int64", (3, 4)), 2, None, "sum"], 0x7F)
    channel.send(message)
    assert Channel(other).receive(Request, 1.0) == message


def test_a_closed_channel_says_so(ends: Ends) -> None:
    channel, other = ends
    other.close()
    with pytest.raises(ChannelClosedError):
        channel.receive(Reply, 1.0)


@pytest.mark.parametrize("sent", [b"", b"\x05", struct.pack("<I", 100) + b"half"])
def test_what_does_not_come_whole_times_out(ends: Ends, sent: bytes) -> None:
    channel, other = ends
    other.sendall(sent)
    with pytest.raises(ChannelTimeoutError):
        channel.receive(Reply, 0.05)


@pytest.mark.parametrize(
    "payload",
    [b"\xc1", b"\x93\x01\x02\x03", b"\x81\xa4type\xa6nobody", b"\x82\xa4type\xa6failed\xa6status\xa4good"],
    ids=["no msgpack", "no struct", "unknown tag", "unknown status"],
)
def test_garbage_is_named(ends: Ends, payload: bytes) -> None:
    channel, other = ends
    other.sendall(struct.pack("<I", len(payload)) + payload)
    with pytest.raises(GarbageError):
        channel.receive(Reply, 1.0)


def test_a_message_of_any_length_is_not_believed(ends: Ends) -> None:
    channel, other = ends
    other.sendall(struct.pack("<I", MAX_MESSAGE_BYTES + 1))
    with pytest.raises(GarbageError, match="bytes"):
        channel.receive(Reply, 1.0)
