"""The other simulators that are run, and the environments that they are run in."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from bench.processes import ROOT


@dataclass(frozen=True)
class Peer:
    """A simulator from PyPI.

    packages       requirements beside torch and numpy
    first, beyond  versions of Python: the lowest that the simulator runs on, and the lowest that it refuses
    bar            share of its processor time that edgefl takes at most, or None where nothing was set
    """

    packages: tuple[str, ...]
    first: tuple[int, int]
    beyond: tuple[int, int]
    bar: float | None = None

    @property
    def pythons(self) -> list[str]:
        """Names of the Pythons that fit, the running one first."""
        fitting = [(3, minor) for minor in range(self.first[1], self.beyond[1])]
        own = [sys.executable] if sys.version_info[:2] in fitting else []
        return own + [f"python3.{minor}" for _, minor in fitting]


PEERS = {
    "pfl": Peer(("pfl[pytorch]==0.6.0",), (3, 10), (3, 13), 0.35),
    "blazefl": Peer(("blazefl==2.0.3", "tqdm"), (3, 12), (3, 14), 0.36),
    # a torchvision of PyPI loads with a torch of PyPI alone, and this machine's torch for Python 3.11 is another build
    "fedlab": Peer(("fedlab==1.3.0", "torchvision==0.28.0"), (3, 12), (3, 14)),
    "flower": Peer(("flwr[simulation]==1.42.0",), (3, 11), (3, 13)),
}


def environment(folder: Path, name: str) -> str:
    """Return the Python of a peer's environment `folder`/`name`, which is made if it is missing.

    Raises  RuntimeError if no Python fits, or if pip cannot install the packages
    """
    peer, place = PEERS[name], folder.absolute() / name
    python = place / "bin" / "python"
    if not python.exists():
        base = next((found for each in peer.pythons if (found := shutil.which(each))), None)
        if base is None:
            raise RuntimeError(
                f"{name} needs one of {', '.join(peer.pythons)} on the path; expected it to be installed"
            )
        _run(base, "-m", "venv", str(place))
        torch = f"torch=={version('torch').split('+')[0]}"
        _run(str(python), "-m", "pip", "install", "-q", torch, "numpy", *peer.packages)
    return str(python)


def _run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-1000:]}")
