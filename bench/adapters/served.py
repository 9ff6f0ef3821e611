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
from typing import Any, NamedTuple

import numpy as np

from bench.language.command import parts
from bench.language.network import DATA, transformer
from bench.processes import Process, processes, python, wait_until
from edgefl import rng
from edgefl.models import add_adapters
from edgefl.models.graph import Model, model_files
from edgefl.server import run_history
from edgefl.server.endpoint import read_endpoint

RANK, LAYERS = 8, "out,up,down"
LIMIT_S = 900.0


class Case(NamedTuple):
    """A run to serve.

    name     name of its row in the record
    method   name of its method
    model    file of the model with adapters
    data     file of the samples
    options  further options of the server, and of the simulation
    clients  number of clients
    device   further options of every device
    """

    name: str
    method: str
    model: Path
    data: Path
    options: Sequence[str]
    clients: int
    device: Sequence[str] = ()

    @property
    def settings(self) -> list[str]:
        """The options of the commands that make the run."""
        files = ["--data", str(self.data), "--model", str(self.model)]
        sizes = ["--clients", str(self.clients), "--per-round", str(self.clients), "--epochs", "1"]
        return [*files, *sizes, "--partition", "group", *self.options]


def measured(folder: Path, repeats: int) -> Iterator[dict[str, object]]:
    """Yield a row for each method. `repeats` does not matter here."""
    for method in ("fedavg", "fedspu"):
        with tempfile.TemporaryDirectory() as path:
            yield served(Path(path), _case(Path(path), method))


def _case(folder: Path, method: str) -> Case:
    """Return the case of a method with the transformer of characters, whose file is written into the folder."""
    file, graph = folder / "adapted.safetensors", transformer()
    base = Model(graph, graph.init(rng.stream(1, rng.INIT)))
    model_files.save(file, add_adapters(base, rank=RANK, targets=LAYERS))
    return Case(method, method, file, roles(folder, 3, 78), ["--rounds", "3", "--eval-every", "3"], 3)


def roles(folder: Path, clients: int, words: int, most: int | None = None) -> Path:
    """Write the lines of the first roles of Shakespeare's plays into the folder, `most` of each role, and return their
    file. A character is one of `words` ids.
    """
    own, _ = parts(DATA)
    kept = np.concatenate([np.flatnonzero(own["group"] == client)[:most] for client in range(clients)])
    meaning = {"targets": "labels", "vocabulary": words, "classes": words}
    np.savez(folder / "roles.npz", **{name: own[name][kept] for name in ("x", "y", "group")}, **meaning)
    return folder / "roles.npz"


def served(folder: Path, case: Case) -> dict[str, object]:
    """Serve a run, replay it and simulate it. Return its row."""
    run, settings = folder / "run", case.settings
    _edgefl("partition", "--out", str(folder / "shares"), *settings)
    device_peak, server_peak = _serve(folder, run, case)
    replayed = _edgefl("simulate", "--replay", str(run), "--workers", "1")
    simulated = ["--run-dir", str(folder / "simulated"), "--workers", "1"]
    _edgefl("simulate", "--method", case.method, *settings, *simulated)
    files = {name: folder / f"{name}.safetensors" for name in ("run", "simulated")}
    for name, file in files.items():
        _edgefl("export", str(folder / name), str(file), *(("--method", case.method) if name == "simulated" else ()))
    found, expected = (model_files.load(file).params for file in files.values())
    model = model_files.load(case.model)
    sizes = {name: value.nbytes for name, value in model.params.items()}
    return {
        "name": case.name,
        "trained_values": sum(size for name, size in sizes.items() if name not in model.graph.frozen) // 4,
        "base_bytes": sum(sizes.values()),
        **_bytes(run_history.metrics(run)[-1]),
        "device_peak": device_peak,
        "server_peak": server_peak,
        "replayed": "identical" in replayed,
        "as_simulated": all(np.array_equal(found[name], value) for name, value in expected.items()),
        "clients": case.clients,
    }


def _bytes(record: dict[str, Any]) -> dict[str, object]:
    """Return the bytes of the last round, and the bytes over the bytes of the values in float32."""
    return {
        way: {**record[way], "over_values": sum(record[way].values()) / record[way]["values"]} for way in ("down", "up")
    }


def _serve(folder: Path, run: Path, case: Case) -> tuple[int, int]:
    """Serve the run to its end. Return the largest resident memory of a device's process and of the server's, in
    bytes.
    """
    with processes(folder) as start:
        options = ["--method", case.method, *case.settings, "--run-dir", str(run), "--port", "0"]
        server = start("server", python("-m", "edgefl", "serve", *options))
        wait_until(lambda: read_endpoint(run) is not None, [server], 60.0)
        devices = [start(f"device-{client}", _device(folder, run, case, client)) for client in range(case.clients)]
        everybody, until = (server, *devices), time.monotonic() + LIMIT_S
        peaks = dict.fromkeys(everybody, 0)
        while any(each.handle.poll() is None for each in everybody) and time.monotonic() < until:
            peaks = {each: max(peak, _memory(each)) for each, peak in peaks.items()}
            time.sleep(0.05)
        for each in everybody:
            each.check()
    return max(peaks[device] for device in devices), peaks[server]


def _device(folder: Path, run: Path, case: Case, client: int) -> list[str]:
    where = ["--server", str(read_endpoint(run)), "--id", str(client), "--state", str(folder / f"state-{client}")]
    data = ["--data", str(folder / "shares" / f"device-{client:04d}.npz")]
    return python("-m", "edgefl", "client", *where, *data, *case.device)


def _memory(process: Process) -> int:
    try:
        return process.memory("VmHWM")
    except OSError:
        return 0  # the process has ended


def _edgefl(*arguments: str) -> str:
    done = subprocess.run(python("-m", "edgefl", *arguments), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"edgefl {arguments[0]} ended with exit code {done.returncode}: {done.stderr[-500:]}")
    return done.stdout
