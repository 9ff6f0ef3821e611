"""Many devices connected at once, on a few processes that host a thread for each device.

A device has its own directory and its own TCP connection. Two hundred Python processes would measure this machine's
memory, not the server. python -m bench.crowd ADDRESS RUN FIRST COUNT hosts COUNT devices.
"""

from __future__ import annotations

import secrets
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench import hosted, stopwatch
from bench.figures import Figure
from bench.fleet import Fleet, fleet
from bench.processes import Process, python, wait_until
from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.deployment.device.device_model import Data
from edgefl.deployment.device.device_profile import DeviceProfile
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.device_socket import DeviceSocket, ServerAddress
from edgefl.deployment.device.device_state import DeviceState
from edgefl.experiment.client_dataset import partition_file, read_partition

MB = 1e6
HOSTS = 4
PATIENCE_S = 400.0


def measure(path: Path, clients: int, rounds: int) -> Iterator[Figure]:
    """Yield the time of rounds with every client, and what the server takes for them."""
    with fleet(path, "small", clients, rounds) as running:
        before, begun = running.server.memory("VmRSS"), time.perf_counter()
        hosts = [_start(running, host, clients) for host in range(HOSTS)]
        memory, cpu_s = 0, 0.0

        def is_over() -> bool:
            nonlocal memory, cpu_s
            if running.server.handle.poll() is None:
                memory, cpu_s = max(memory, running.server.memory("VmHWM")), running.server.cpu_s()
            return all(each.handle.poll() is not None for each in (running.server, *hosts))

        wait_until(is_over, [running.server, *hosts], PATIENCE_S)
    times = hosted.times(stopwatch.read(path / hosted.SPANS))
    lengths = [times["RoundClosed"][round] - times["RoundOpened"][round] for round in range(1, rounds + 1)]
    note = f"median of {rounds}; {HOSTS} processes host the devices"
    yield Figure(
        f"{clients} clients: all enrolled", times["RoundOpened"][1] - begun, "s", note="from their first start"
    )
    yield Figure(f"{clients} clients: a round", median(lengths), "s", note=note)
    yield Figure(f"{clients} clients: server, resident", memory / MB, "MB", note=f"VmHWM; {before / MB:.0f} before")
    yield Figure(f"{clients} clients: server, processor", cpu_s, "s", note=f"start, {rounds} rounds and an evaluation")


def _start(running: Fleet, host: int, clients: int) -> Process:
    first, end = clients * host // HOSTS, clients * (host + 1) // HOSTS
    command = python("-m", "bench.crowd", running.address, str(running.path), str(first), str(end - first))
    return running.start(f"host-{host}", command)


def main() -> int:
    address, path = ServerAddress.parse(sys.argv[1]), Path(sys.argv[2])
    first, count = int(sys.argv[3]), int(sys.argv[4])
    ends: list[str] = []
    threads = [
        threading.Thread(target=lambda client=client: ends.append(_client(address, path, client).run()))
        for client in range(first, first + count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0 if len(ends) == count else 1


def _client(address: ServerAddress, path: Path, client: int) -> DeviceSocket:
    def pause(failures: int) -> None:
        time.sleep(0.1 * (1 + failures))

    data = Data(*read_partition(partition_file(path / "shares", client)))
    world = DeviceEnvironment(print, pause, time.perf_counter)
    device = Device(DeviceState(path / f"d{client}"), DeviceProfile(client, None, 1.0, 1 << 20), data, world)
    return DeviceSocket(address, device, None, secrets.token_bytes, world)


if __name__ == "__main__":
    sys.exit(main())
