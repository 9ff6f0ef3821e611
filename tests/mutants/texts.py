"""Mutants within texts that mean something: rules of a table, digests, patterns and settings of SQLite.

Operators leave texts alone, because most of them are words for people.
"""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "hash-sizes",
        "edgefl/models/neurons/neuron_set.py",
        'f"{group} {self.sizes[group]} {len(ids)}\\n"',
        'f"{group} {len(ids)}\\n"',
        "neurons of a smaller group have the hash of those of a larger one",
        "tests/models/neurons/test_neuron_set.py",
    ),
    Mutant(
        "names-of-columns",
        "edgefl/experiment/array_data.py",
        'digest.update(f"{name} {value.dtype.str} {arrays[name].shape}\\n".encode())',
        'digest.update(b"")',
        "arrays of another type or shape have the same name",
        "tests/study/test_five_lines.py",
    ),
    Mutant(
        "row-of-one-value",
        "edgefl/kernels/table.py",
        'rules=("x: B * inner >= 2: at least 2 values per channel",)',
        'rules=("x: B * inner >= 1: at least 2 values per channel",)',
        "a batch norm of one value is accepted",
        "tests/kernels/test_arguments.py -k 'reference or cuda'",
    ),
    Mutant(
        "row-of-columns",
        "edgefl/kernels/table.py",
        "cols: cols == ins: {ins} columns",
        "cols: cols <= ins: {ins} columns",
        "an update may write fewer columns than it has read",
        "tests/kernels/test_arguments.py -k 'reference or cuda'",
    ),
    Mutant(
        "generated-divisors",
        "csrc/generator/checks.py",
        "{number} < 1 || {of} % {number}",
        "{number} < 0 || {of} % {number}",
        "a C function divides by 0 groups",
        "tests/kernels/test_generated.py",
    ),
    Mutant(
        "markup-in-headings",
        "edgefl/study/table_formats.py",
        "{escape(heading)}</th>",
        "{heading}</th>",
        "a method's name with markup is no text in a table of the report",
        "tests/study/report/test_report_page.py",
    ),
)
