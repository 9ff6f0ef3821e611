"""The side of a counted process: python -m bench.arm.body_calls TITLES FIRST MORE.

It runs each pass of each operation with these titles once, then FIRST times, then FIRST + MORE times. It asks the
counting plugin for its count before and after each of the last two. The last line of stdout is JSON: the passes by
name, in the order of their counts. It runs on aarch64 with edgefl's device dependencies alone.
"""

from __future__ import annotations

import json
import sys

from bench.arm.workload import mark
from bench.operation_calls import native_passes, titled


def main(titles: str, first: int, more: int) -> None:
    names = []
    for work in titled(titles):
        for kind, run in native_passes(work.op, work.shape, work.inputs).items():
            run(1)
            for repeats in (first, first + more):
                mark()
                run(repeats)
                mark()
            names.append(f"{work.name} {kind}")
    print(json.dumps(names))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
