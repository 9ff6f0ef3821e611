"""The file of a trained round on a device: the reply, what the device keeps after it, and a digest of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from edgefl.deployment.device.digest_record import SEAL, digest_of
from edgefl.errors import RunError
from edgefl.methods.rounds.state_file import StoredClientState
from edgefl.protocol.wire import messages
from edgefl.protocol.wire.messages import Trained
from edgefl.system.durable_files import load_arrays

REPLY, SUMMAND = "reply", "summand"  # names of arrays
AFTER = "after"


class StoredSummand(NamedTuple):
    """A device's part of the sum of its group (rounds/summed_reply.py), on its disk.

    draw     name of the draw of neurons
    numbers  int32
    """

    draw: str
    numbers: np.ndarray


class Round(NamedTuple):
    """The content of a round's file. `summand` is there with secure aggregation."""

    round: int
    kept: StoredClientState
    reply: Trained
    summand: StoredSummand | None = None


def round_content(round: Round) -> bytes:
    """Return the content of a round's file."""
    arrays = {**round.kept.flat(), REPLY: np.frombuffer(messages.encode(round.reply), np.uint8)}
    record: dict[str, Any] = {"round": round.round, "private": round.kept.private}
    if round.summand is not None:
        arrays[SUMMAND], record["draw"] = round.summand.numbers, round.summand.draw
    text = json.dumps(record)
    after = json.dumps({AFTER: text, SEAL: digest_of(arrays, text)})
    return safetensors.numpy.save(arrays, {AFTER: after})  # one key, because the order of keys is not kept


def read_round(file: Path) -> Round:
    """Read a round as `round_content` made it. Raises RunError if it is missing or damaged."""
    arrays, metadata = load_arrays(file)
    try:
        sealed = json.loads(metadata[AFTER])
        if sealed[SEAL] != digest_of(arrays, sealed[AFTER]):
            raise ValueError("its SHA-256 is not the stated one")
        reply = messages.decode(messages.NUMBERS[Trained], arrays.pop(REPLY).tobytes())
        after = json.loads(sealed[AFTER])
        summand = StoredSummand(str(after["draw"]), arrays.pop(SUMMAND)) if SUMMAND in arrays else None
        round, kept = int(after["round"]), StoredClientState.of(arrays, dict(after["private"]))
    except (KeyError, TypeError, ValueError, RecursionError) as error:  # errors of msgspec are ValueErrors
        raise RunError(f"{file} is damaged ({error!r}); expected a round of a device") from None
    assert isinstance(reply, Trained)
    return Round(round, kept, reply, summand)
