"""Time to encode and decode one million values, beside a plain copy of the bytes. Decoding float32 copies nothing."""

from __future__ import annotations

import time

from bench.runner import Contender, Effort, interleave
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import Linear
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.protocol.codec import FORMATS, decode, encode
from edgefl.rng import INIT, stream

SIDE = 1000  # inputs, and outputs, of a square Linear layer


def measure(effort: Effort) -> list[dict[str, str | float]]:
    """Return a row per operation: CPU milliseconds (median) and GB/s of float32 values."""
    timings = interleave(contenders(), effort, time.process_time)
    size = 4 * SIDE * SIDE
    return [
        {"operation": name, "ms": timing.median_s * 1e3, "gb_per_s": size / timing.median_s / 1e9}
        for name, timing in timings.items()
    ]


def contenders() -> dict[str, Contender]:
    """Return encoding and decoding in each number format, and a plain copy of the bytes."""
    graph = Graph((SIDE,), (Node("fc", Linear(SIDE, SIDE, bias=False), ("input",)),))
    spec = ModelSpec.of(graph)
    params = graph.init(stream(0, INIT))
    update, weight = take(params, spec), params["fc.weight"]

    def repeated(work: object, *args: object, **options: object) -> Contender:
        def run(repeats: int) -> None:
            for _ in range(repeats):
                work(*args, **options)  # type: ignore[operator]

        return run

    runs = {"copy": repeated(weight.tobytes)}
    for values in FORMATS:
        data = encode(update, spec, values=values)
        runs[f"encode {values}"] = repeated(encode, update, spec, values=values)
        runs[f"decode {values}"] = repeated(decode, data, spec, limit=len(data))
    return runs
