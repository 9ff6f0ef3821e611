"""python -m bench.faults.metered FILE COMMAND ...: an edgefl command, and in FILE the peak of its resident memory.

Linux. Unlike what a parent is told of an ended child, VmHWM does not have the parent's own memory in it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from edgefl.cli.cli import main
from edgefl.study.memory_meter import resident_bytes

if __name__ == "__main__":
    code = main(sys.argv[2:])
    Path(sys.argv[1]).write_text(str(resident_bytes("VmHWM")))
    sys.exit(code)
