"""python -m bench.device SPANS ...: `edgefl client ...` with a stopwatch. Its spans are written at the end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from bench.stopwatch import Stopwatch
from edgefl.cli import cli
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.device_state import DeviceState
from edgefl.methods.fedspu import FedSPU
from edgefl.methods.rounds import exchange
from edgefl.protocol.wire.connection import Connection

TIMED: list[tuple[Any, str, str]] = [
    (Device, "_train", "device"),
    (FedSPU, "train", "training"),
    (exchange, "plan_of", "codec"),
    (exchange, "trained_message", "codec"),
    (DeviceState, "keep", "keep"),
    (DeviceState, "accept", "accept"),
    (Connection, "send", "frames"),
    (Connection, "receive", "frames"),
]


def main() -> int:
    watch = Stopwatch()
    for timed in TIMED:
        watch.time(*timed)
    try:
        return cli.main(["client", *sys.argv[2:]])
    finally:
        watch.write(Path(sys.argv[1]))


if __name__ == "__main__":
    sys.exit(main())
