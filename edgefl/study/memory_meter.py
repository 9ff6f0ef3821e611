"""The memory meter: the memory of a way of training, measured in a fresh process that trains in this way. The results
are Footprints.

learner   bytes the learner held after training: parameters, arena, states, id lists and the kernels' packing scratch
resident  the process's resident set after training (VmRSS): interpreter, numpy and data included
peak      the largest resident set of the process so far (VmHWM)
torch     bytes that eager PyTorch keeps for the backward pass of the same model, dense: what freezing by masks leaves

`measure` runs `python -m edgefl.study.memory_meter` with the request on its standard input. This file is both ends. It
works on Linux only, except for `learner` and `torch`.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from edgefl.errors import EdgeflError, TrainingError
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.learning.batches import Keyed, Listed
from edgefl.learning.fit_options import FitOptions
from edgefl.learning.lowering.updates import Terms
from edgefl.learning.memory import Footprint, TrainingConfiguration
from edgefl.models.graph import Graph, Model, Params
from edgefl.models.graph.input_ids import id_values
from edgefl.models.graph.json import dumps, loads
from edgefl.models.graph.quantized_parameters import filled
from edgefl.models.neurons.block_index import Flat
from edgefl.models.neurons.random_mask import random_mask
from edgefl.models.neurons.update import Block, Update

METERS = ("learner", "resident", "peak", "torch")
NATIVE = METERS[:3]  # meters that one process without torch reads
SEED = 1
STEPS = 20
SAMPLES = 500  # uint8 examples that the process holds, as on a device, or a whole batch if that is larger


def measure(
    training: TrainingConfiguration, meters: tuple[str, ...] = NATIVE, limit_bytes: int | None = None
) -> list[Footprint]:
    """Return a footprint per meter. The native meters share one process, and torch has a process of its own.

    limit_bytes  the learner's limit of memory in bytes
    Raises  ValueError for an update that is not plain SGD, TrainingError with the process's last line if it fails. A
            refusal by the limit is such a failure.
    """
    if not training.terms.is_plain:
        raise ValueError(f"{training.terms}; expected plain SGD for a measurement")
    readings: dict[str, dict[str, int]] = {}
    if set(meters) & set(NATIVE):
        readings |= _ask({**_request(training), "limit_bytes": limit_bytes})
    if "torch" in meters:
        readings |= _ask({**_request(training), "torch": True})
    return [training.footprint(meter, readings[meter], saved=readings[meter].get("saved")) for meter in meters]


def resident_bytes(field: str) -> int:
    """Return bytes that Linux counts for this process: VmRSS now, VmHWM at most so far. Raises OSError elsewhere."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}; expected Linux")


def _request(training: TrainingConfiguration) -> dict[str, Any]:
    names = ("model", "batch", "method", "keep", "examples")
    return {
        "graph": dumps(training.graph),
        **{name: getattr(training, name) for name in names},
        "saved": training.terms.saved,
        "micro_batch": training.terms.micro_batch,
    }


def _ask(request: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Return the readings of a fresh process, by meter."""
    path = os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))))
    command, environment = [sys.executable, "-m", "edgefl.study.memory_meter"], {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        command, input=json.dumps(request), env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        words = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise TrainingError(f"measuring {request['model']}: {words[-1]}")
    readings: dict[str, dict[str, int]] = json.loads(done.stdout)
    return readings


# ---- the process that is measured -----------------------------------------------------------------------------------


def _answer(request: dict[str, Any]) -> dict[str, dict[str, int]]:
    limit, with_torch = request.pop("limit_bytes", None), request.pop("torch", False)
    terms = Terms(saved=request.pop("saved"), micro_batch=request.pop("micro_batch"))
    training = TrainingConfiguration(**{**request, "graph": loads(request["graph"]), "terms": terms})
    if with_torch:
        return {"torch": {"saved": _torch_saved(training)}}
    before = resident_bytes("VmRSS")
    held, alive = _pflego(training, limit) if training.method == "pflego" else _train(training, limit)
    now, peak = resident_bytes("VmRSS"), resident_bytes("VmHWM")
    del alive
    return {
        "learner": held,
        "resident": {"imports": before, "training": now - before},
        "peak": {"imports": before, "training": peak - before},
    }


def _train(training: TrainingConfiguration, limit: int | None) -> tuple[dict[str, int], object]:
    """Train STEPS steps, and one smaller step if batches can be smaller. Return what the learner holds, and objects."""
    graph, neurons = training.trained
    learner, data = _learner(graph, limit), _samples(graph, training)
    if training.method == "sparse" and training.keep < 1:
        learner.restrict(random_mask(learner.spec, training.keep, "erk", SEED), training.batch)
    order = np.random.RandomState(SEED).permutation(len(data)).astype(np.int32)
    whole, *partial = training.batches
    batches = [np.resize(np.roll(order, -step * whole), whole) for step in range(STEPS)]
    learner.fit(
        data,
        Listed(batches + [order[:size] for size in partial], Keyed(SEED)),
        SGD(0.01, saved=training.terms.saved, micro_batch=training.terms.micro_batch),
        FitOptions(neurons),
    )
    return learner.memory(), (learner, data)


def _pflego(training: TrainingConfiguration, limit: int | None) -> tuple[dict[str, int], object]:
    """Return the most that a round holds, with head steps on cached features and a joint gradient in chunks.

    The second value keeps the objects alive. A learner gives back the arena of one pass before the next pass. A learner
    with a limit does this by itself.
    """
    graph, examples = training.graph, training.examples or training.batch
    data, order = _samples(graph, training), np.arange(examples, dtype=np.int32)
    model = _learner(graph, limit)
    personal = model.with_head(graph.output_shape[0])
    features = personal.features(data, order, training.batch)
    personal.release()
    personal.head().fit(Samples(features, data.y[:examples]), [order] * STEPS, SGD(0.01))
    steps = {**model.memory(), "features": features.nbytes}
    personal.head().release()
    del features
    gradient = personal.gradient(data, order, chunk=training.batch, key=SEED)
    chunked = examples > training.batch
    summed = {"summed gradients": sum(value.nbytes for value in gradient.values())} if chunked else {}
    return max(steps, {**model.memory(), **summed}, key=lambda held: sum(held.values())), (model, data, gradient)


def _learner(graph: Graph, limit: int | None) -> GraphLearner:
    """Return a learner whose parameters are drawn row by row, so that the meters show no second copy of them."""
    learner, values = GraphLearner(_blank(graph), limit_bytes=limit), np.random.RandomState(SEED)
    written = {name: info for name, info in graph.parameters().items() if name not in graph.quantized_by_name}
    for name, info in written.items():
        if len(info.shape) == 1:
            learner.write({name: np.ones(info.shape, np.float32)})
            continue
        size, width = math.prod(info.shape), math.prod(info.shape[1:])
        for start in range(0, size, width):
            row = Flat(np.arange(start, start + width, dtype=np.uint32), size)
            drawn = values.uniform(-0.05, 0.05, width).astype(np.float32)
            learner.write(Update({name: Block(info.shape, row, drawn)}))
    return learner


def _blank(graph: Graph) -> Model:
    """Return the graph with zeros, which take no memory until something is written to them. Quantized parameters are
    not zeros, because nothing writes to them.
    """
    infos = graph.parameters()
    params: Params = {name: np.zeros(info.shape, np.float32) for name, info in infos.items()}
    for each in graph.quantized:
        params[each.name] = filled(each, infos[each.name].shape)  # type: ignore[assignment]
    return Model(graph, params)


def _samples(graph: Graph, training: TrainingConfiguration) -> Samples:
    values = np.random.RandomState(SEED)
    count = max(SAMPLES, training.batch, training.examples or 0)
    least = min((part.rows for part in id_values(graph)), default=256)
    x = values.randint(0, min(least, 256), (count, *graph.input_shape), np.uint8)
    classes, places = training.loss.split(graph.output_shape)
    labels = values.randint(0, classes, (count, *(places if math.prod(places) > 1 else ())), np.int32)
    return Samples(x, labels, scale=1.0 if id_values(graph) else 1 / 255)


def _torch_saved(training: TrainingConfiguration) -> int:
    from edgefl.torch.saved_tensors import saved_bytes_of

    graph, _ = training.trained
    data = _samples(graph, training)
    return saved_bytes_of(_blank(graph), data.x[: training.batch] * np.float32(data.scale), data.y[: training.batch])


def main() -> int:
    """Read a request, train, and print the readings."""
    try:
        print(json.dumps(_answer(json.load(sys.stdin))))
    except (EdgeflError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
