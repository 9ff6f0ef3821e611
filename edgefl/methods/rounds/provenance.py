"""The provenance of a run: the build of edgefl and the kernels, as text such as "edgefl 0.1.0+3e7ad57212
native-avx512".

Results are bit-identical only between equal provenances. An instruction set fixes the order of sums, and so does the
processor of a GPU in TF32. Builds of one version are meant to compute alike. Earlier versions of edgefl did not name
the commit of the build, so "edgefl 0.1.0 native-avx512" is an older build. run.json and the server's database keep the
text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from edgefl import __version__, kernels
from edgefl.protocol.wire.printable import printable
from edgefl.system.build_id import build

PROVENANCE = re.compile(r"edgefl (\S+) (native|numba|reference|cuda-tf32|cuda)(?:-(\w+))?")


def provenance() -> str:
    """Return the provenance of this process."""
    ops = kernels.backend()
    name = kernels.name_of(ops)
    if name == "native":
        name = f"native-{ops.isa()}"
    elif name == "cuda-tf32":
        name = f"cuda-tf32-{ops.DEVICE.architecture}"
    return f"edgefl {build()} {name}"


def other_provenances(made_by: Iterable[str]) -> str | None:
    """Return the reason why this process may not reproduce a run's results to the bit, and what would reproduce them.

    The result is None if all provenances of the run equal the provenance of this process. A device writes its own text.
    A text that does not come from `provenance` is shown as it is, made printable.
    """
    here = provenance()
    others = sorted({printable(made) for made in made_by if made != here})
    if not others:
        return None
    made = f"made by {' and by '.join(others)}; this is {here}"
    if all(_without_build(other) == _without_build(here) for other in others):
        return f"{made}, another build of this version: results may differ in their last bits"
    setting = _setting(others[0]) if len(others) == 1 else None
    how = f"; {setting} gives equal results" if setting else ""
    return f"{made}: results differ in their last bits{how}"


def _without_build(made: str) -> str:
    """Return the text without the commit of the build, as earlier versions of edgefl wrote it."""
    found = PROVENANCE.fullmatch(made)
    return made if found is None else made.replace(found[1], found[1].partition("+")[0], 1)


def _setting(made: str) -> str | None:
    """Return the setting that gives the provenance `made`, or None if it names no kernels."""
    found = PROVENANCE.fullmatch(made)
    if found is None:
        return None
    version, name, order = found.groups()
    what = [f"EDGEFL_KERNELS={name}"] if name != "native" else []
    what += [f"EDGEFL_ISA={order}" if name == "native" else f"a GPU of {order}"] if order else []
    what += [f"edgefl {version}"] if version.partition("+")[0] != __version__ else []
    return " with ".join(what)
