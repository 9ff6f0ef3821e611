"""Nobody needs `cryptography` who does not aggregate securely, and the refusal without it names the extra."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = "import sys; sys.modules['cryptography'] = None; import edgefl, edgefl.protocol; "


def run(statement: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT + statement], capture_output=True, text=True, check=False)


def test_edgefl_is_imported_without_cryptography() -> None:
    assert run("print(1)").stdout == "1\n"


def test_the_refusal_names_the_extra() -> None:
    assert run("import edgefl.protocol.secure.group_member").stderr.splitlines()[-1] == (
        "edgefl.errors.RequestError: secure aggregation needs the package cryptography, which is not installed; "
        "pip install 'edgefl[keys]'"
    )
