"""The native backend: the operations of the table as edgefl._core has them, and the library's own settings.

The contracts are in csrc/edgefl.h and the checks in csrc/python/. Importing this module raises ImportError where the
extension was not built.
"""

from edgefl import _core
from edgefl._core import (
    Program,
    cap_code_products,
    cap_isa,
    code_products,
    compiler,
    core_id,
    core_name,
    has_isa,
    in_order,
    isa,
    preferred_cores,
    scratch_bytes,
    scratch_needed,
    set_in_order,
    set_threads,
    threads,
)

from .table import TABLE

__all__ = [
    "Program",
    "cap_code_products",
    "cap_isa",
    "code_products",
    "compiler",
    "core_id",
    "core_name",
    "has_isa",
    "in_order",
    "isa",
    "preferred_cores",
    "scratch_bytes",
    "scratch_needed",
    "set_in_order",
    "set_threads",
    "threads",
]

globals().update({row.name: _core.function(row.name, row.as_python, row.documentation) for row in TABLE.values()})
