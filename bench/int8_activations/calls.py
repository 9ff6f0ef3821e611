"""The side of a counted process: python -m bench.int8_activations.calls MODEL BATCH FIRST MORE PRODUCTS,...

It runs an evaluation in each way, and with each kind of products of codes, FIRST times, then FIRST + MORE times. It
asks the counting plugin for its count before and after each. The last line of stdout is JSON: what ran, in the order of
the counts. It runs on aarch64 with edgefl's device dependencies alone.
"""

from __future__ import annotations

import json
import sys

from bench.arm.workload import mark
from bench.int8_activations.learners import ACTIVATIONS, drawn, learners
from edgefl.kernels import native


def main(model: str, batch: int, first: int, more: int, products: list[str]) -> None:
    names = []
    whole, samples = drawn(model, batch)
    for way, learner in learners(whole).items():
        for kind in products if way == ACTIVATIONS else products[:1]:
            native.cap_code_products(kind)
            learner.evaluate(samples)
            for repeats in (first, first + more):
                mark()
                for _ in range(repeats):
                    learner.evaluate(samples)
                mark()
            names.append([way, native.code_products() if way == ACTIVATIONS else ""])
    print(json.dumps(names))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5].split(","))
