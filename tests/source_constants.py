"""Examples of hypothesis without the constants of the sources.

Hypothesis draws one value in twenty from a list of constants. The list has hypothesis' own constants, such as 2**31 and
nan, and the constants of all modules that are imported. For these it parses each file of `edgefl`, `tests` and `bench`:
this takes 6 to 8 s of CPU in every worker of a fresh checkout. A test's examples then depend on the modules that
other tests import. A nightly run keeps the constants of the sources.
"""

from __future__ import annotations

from hypothesis.internal.conjecture import providers


def leave_out_source_constants() -> None:
    """Let hypothesis take every module for a library's module. Its own constants stay.

    Raises  AttributeError if this version of hypothesis asks about modules by another function.
    """
    if not callable(providers.is_local_module_file):
        raise AttributeError("hypothesis has no is_local_module_file; look for it in its constants_ast.py")
    providers.is_local_module_file = _is_of_a_library


def _is_of_a_library(path: str) -> bool:
    """Return False, because no path is said to be a local module's path."""
    return False
