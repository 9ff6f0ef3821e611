"""Mutants of the rules in the rows of operations, and of what Python and the generator make of rules."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

ROWS, RULES, G = "edgefl/kernels/table.py", "edgefl/kernels/argument_rules.py", "csrc/generator/"
ARGUMENTS, GENERATED = "tests/kernels/test_arguments.py -k 'reference or cuda'", "tests/kernels/test_generated.py"

MUTANTS = (
    Mutant(
        "row-of-one-value",
        ROWS,
        'rules=("x: B * inner >= 2: at least 2 values per channel",)',
        'rules=("x: B * inner >= 1: at least 2 values per channel",)',
        "a batch norm of one value is accepted",
        ARGUMENTS,
    ),
    Mutant(
        "row-of-columns",
        ROWS,
        "cols: cols == ins: {ins} columns",
        "cols: cols <= ins: {ins} columns",
        "an update may write fewer columns than it has read",
        ARGUMENTS,
    ),
    Mutant(
        "row-of-places",
        ROWS,
        "min(8 * E, 2147483648) - inner: 0 to",
        "min(8 * E, 2147483648): 0 to",
        "the last values of a part have no bits",
        ARGUMENTS,
    ),
    Mutant(
        "rule-shown-value",
        RULES,
        "if isinstance(value, np.ndarray) and rule.name not in extents",
        "if False",
        "a refusal shows an array's values, and not its shape",
        GENERATED,
    ),
    Mutant(
        "generated-status",
        f"{G}checks.py",
        '"EFL_BAD_SHAPE" if is_shape else "EFL_BAD_ARGUMENT"',
        '"EFL_BAD_ARGUMENT" if is_shape else "EFL_BAD_SHAPE"',
        "the C functions mix up what is wrong",
        GENERATED,
    ),
    Mutant(
        "generated-divisors",
        f"{G}checks.py",
        "{number} < 1 || {of} % {number}",
        "{number} < 0 || {of} % {number}",
        "a C function divides by 0 groups",
        GENERATED,
    ),
    Mutant(
        "generated-chains",
        f"{G}expressions.py",
        "zip([left, *rights], ops, rights)",
        "zip([left] * len(ops), ops, rights)",
        "of a chain of comparisons the first value is compared with each",
        GENERATED,
    ),
    Mutant(
        "generated-dates",
        "csrc/generate.py",
        'if not file.exists() or file.read_text("utf-8") != text:',
        "if True:",
        "every build compiles everything",
        GENERATED,
    ),
)
