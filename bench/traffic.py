"""Bytes on the wire: counted at the socket by a relay, and equal to payloads and stated headers, message by message."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from bench.figures import Figure
from bench.fleet import fleet, wait_for_end
from bench.relay import Count, Frame, Relay, relay
from edgefl.protocol.wire import frames
from edgefl.protocol.wire.connection import payload_bytes
from edgefl.protocol.wire.messages import Evaluate, Evaluated, Message, Train, Trained, Verdict
from edgefl.server import run_history

ROUND = (Train, Trained, Verdict)  # messages of every round
EVALUATION = (Evaluate, Evaluated)


def measure(path: Path, clients: int, rounds: int) -> Iterator[Figure]:
    """Yield header bytes by type of message, and the bytes of a round.

    Raises AssertionError naming both sums if the relay, the metrics and the server's own count differ by a byte.
    """
    with fleet(path, "small", clients, rounds) as running, relay(running.address) as counted:
        devices = [running.device(client, counted.address) for client in range(clients)]
        wait_for_end(running, devices, rounds)
    check(counted, path, rounds)
    everything = counted.up.frames + counted.down.frames
    yield from _headers(everything)
    yield from _round(everything, rounds)


def check(counted: Relay, path: Path, rounds: int) -> None:
    """Check that only whole frames passed, and that the store's tables say what the relay says."""
    for count in (counted.up, counted.down):
        _equal("bytes at the socket, and in frames", count.bytes, sum(frame.size for frame in count.frames))
    log_records, traffic = run_history.metrics(path), run_history.traffic(path)
    for way, count, kind in (("down", counted.down, Train), ("up", counted.up, Trained)):
        for log_record in log_records:
            sent = sum(payload_bytes(each) for each in _of_round(count, log_record["round"], kind))
            _equal(
                f"payload {way} of round {log_record['round']}: relay, and metrics", sent, sum(log_record[way].values())
            )
    for before, after in pairwise(traffic):
        total = [frame for count in (counted.up, counted.down) for frame in count.frames]
        own = [frame for frame in total if _is_of_round(frame.message, after.round)]
        said = after.sent + after.received - before.sent - before.received
        heads = after.sent_headers + after.received_headers - before.sent_headers - before.received_headers
        _equal(f"bytes of round {after.round}: relay, and server", sum(frame.size for frame in own), said)
        _equal(f"header bytes of round {after.round}: relay, and server", sum(map(_header, own)), heads)
    _equal("rounds in the traffic table", len(traffic), rounds)


def _headers(everything: list[Frame]) -> Iterator[Figure]:
    kinds: dict[type[Message], list[Frame]] = defaultdict(list)
    for frame in everything:
        kinds[type(frame.message)].append(frame)
    for kind, found in kinds.items():
        heads = sorted(map(_header, found))
        note = f"{frames.HEADER.size} of the frame, the rest the message's other fields; {len(found)} seen"
        if heads[0] != heads[-1]:
            note += f", {heads[0]} to {heads[-1]}"
        yield Figure(f"header of {kind.__name__}", sum(heads) / len(heads), "bytes", note=note)


def _round(everything: list[Frame], rounds: int) -> Iterator[Figure]:
    own = [frame for frame in everything if isinstance(frame.message, ROUND)]
    payload = sum(payload_bytes(frame.message) for frame in own)
    whole = sum(frame.size for frame in own)
    note = f"= {payload / rounds:.1f} of payload + {sum(map(_header, own)) / rounds:.1f} of headers, exactly"
    yield Figure("bytes of a round at the socket", whole / rounds, "bytes", note=f"{note}; mean of {rounds} rounds")


def _header(frame: Frame) -> int:
    return frame.size - payload_bytes(frame.message)


def _of_round(count: Count, round: int, kind: type[Train] | type[Trained]) -> Iterator[Message]:
    return (frame.message for frame in count.frames if isinstance(frame.message, kind) and frame.message.round == round)


def _is_of_round(message: Message, round: int) -> bool:
    return isinstance(message, (*ROUND, *EVALUATION)) and message.round == round


def _equal(what: str, one: int, other: int) -> None:
    if one != other:
        raise AssertionError(f"{what}: {one} and {other}; expected the same")
