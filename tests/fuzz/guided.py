"""Coverage-guided fuzzing by atheris: python tests/fuzz/guided.py TARGET [CORPUS ...] [-libFuzzer_option=...]

    pip install atheris
    python tests/fuzz/guided.py payload /tmp/found tests/fuzz/corpus/payload -max_total_time=3600

What is found anew goes to the first folder. Targets are in targets.py. Not a test: the suite runs the corpora alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[2]))
with atheris.instrument_imports(include=["edgefl", "wave", "zipfile"], enable_loader_override=False):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """Runs until a fault, or as long as libFuzzer's options say."""
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"target {sys.argv[1:2]}; expected one of {', '.join(TARGETS)}")
    target = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
