"""A federation that trains adapters: a server and processes of devices, the run's replay, and its simulation.

The model is the transformer of bench/language with random weights and an adapter of rank 8 on Linear layers of its
blocks. The clients are roles of Shakespeare's plays. Every command is one that a user types.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.language.command import parts
from bench.language.network import DATA, transformer
from bench.processes import Process, processes, python, wait_until
from edgefl import rng
from edgefl.models import add_adapters
from edgefl.models.graph import Model, model_files
from edgefl.server import run_history
from edgefl.server.endpoint import read_endpoint

CLIENTS, ROUNDS, RANK, LAYERS = 3, 3, 8, "out,up,down"
LIMIT_S = 900.0


def measured(folder: Path, repeats: int) -> Iterator[dict[str, object]]:
    """Yield a row for each method. `repeats` does not matter here."""
    for method in ("fedavg", "fedspu"):
        with tempfile.TemporaryDirectory() as path:
            yield {"name": method, **_served(Path(path), method)}


def _options(folder: Path) -> list[str]:
    """Write the model and the samples into the folder, and return the options of every command."""
    own, _ = parts(DATA)
    kept = own["group"] < CLIENTS
    meaning = {"targets": "labels", "vocabulary": 78, "classes": 78}
    np.savez(folder / "roles.npz", **{name: own[name][kept] for name in ("x", "y", "group")}, **meaning)
    graph = transformer()
    base = Model(graph, graph.init(rng.stream(1, rng.INIT)))
    model_files.save(folder / "adapted.safetensors", add_adapters(base, rank=RANK, targets=LAYERS))
    files = ["--data", str(folder / "roles.npz"), "--model", str(folder / "adapted.safetensors")]
    sizes = ["--clients", str(CLIENTS), "--per-round", str(CLIENTS), "--rounds", str(ROUNDS), "--epochs", "1"]
    return [*files, *sizes, "--partition", "group", "--eval-every", str(ROUNDS)]


def _served(folder: Path, method: str) -> dict[str, object]:
    options, run = _options(folder), folder / "run"
    _edgefl("partition", "--out", str(folder / "shares"), *options)
    peak = _serve(folder, run, ["--method", method, *options])
    replayed = _edgefl("simulate", "--replay", str(run), "--workers", "1")
    _edgefl("simulate", "--method", method, *options, "--run-dir", str(folder / "simulated"), "--workers", "1")
    files = {name: folder / f"{name}.safetensors" for name in ("run", "simulated")}
    for name, file in files.items():
        _edgefl("export", str(folder / name), str(file), *(("--method", method) if name == "simulated" else ()))
    found, expected = (model_files.load(file).params for file in files.values())
    model = model_files.load(folder / "adapted.safetensors")
    trained = [info for name, info in model.graph.parameters().items() if name not in model.graph.frozen]
    return {
        "trained_values": int(sum(np.prod(info.shape) for info in trained)),
        "base_bytes": sum(value.nbytes for value in model.params.values()),
        **_bytes(run_history.metrics(run)[-1]),
        "device_peak": peak,
        "replayed": "identical" in replayed,
        "as_simulated": all(np.array_equal(found[name], value) for name, value in expected.items()),
        "clients": CLIENTS,
        "rounds": ROUNDS,
    }


def _bytes(record: dict[str, Any]) -> dict[str, object]:
    """Return the bytes of the last round, and the bytes over the bytes of the values in float32."""
    return {
        way: {**record[way], "over_values": sum(record[way].values()) / record[way]["values"]} for way in ("down", "up")
    }


def _serve(folder: Path, run: Path, options: Sequence[str]) -> int:
    """Serve the run to its end. Return the largest resident memory of a device's process, in bytes."""
    peaks = [0] * CLIENTS
    with processes(folder) as start:
        server = start("server", python("-m", "edgefl", "serve", *options, "--run-dir", str(run), "--port", "0"))
        wait_until(lambda: read_endpoint(run) is not None, [server], 60.0)
        devices = [start(f"device-{client}", _device(folder, run, client)) for client in range(CLIENTS)]
        until = time.monotonic() + LIMIT_S
        while any(each.handle.poll() is None for each in (server, *devices)) and time.monotonic() < until:
            peaks = [max(peak, _memory(device)) for peak, device in zip(peaks, devices, strict=True)]
            time.sleep(0.05)
        for each in (server, *devices):
            each.check()
    return max(peaks)


def _device(folder: Path, run: Path, client: int) -> list[str]:
    where = ["--server", str(read_endpoint(run)), "--id", str(client), "--state", str(folder / f"state-{client}")]
    return python("-m", "edgefl", "client", *where, "--data", str(folder / "shares" / f"device-{client:04d}.npz"))


def _memory(device: Process) -> int:
    try:
        return device.memory("VmHWM")
    except OSError:
        return 0  # the process has ended


def _edgefl(*arguments: str) -> str:
    done = subprocess.run(python("-m", "edgefl", *arguments), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"edgefl {arguments[0]} ended with exit code {done.returncode}: {done.stderr[-500:]}")
    return done.stdout
