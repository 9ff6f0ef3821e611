"""python -m tests.faults.metered FILE COMMAND ...: an edgefl command that writes its peak resident memory to FILE.

It needs Linux. VmHWM does not include the parent's own memory, unlike what a parent is told of an ended child.
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
