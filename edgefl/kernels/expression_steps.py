"""The steps of the kernel operation `evaluate`: their numbers, and how many values each of them reads."""

from __future__ import annotations

STEPS: dict[str, int] = {
    "constant": 0, "sum": 2, "difference": 2, "product": 2, "quotient": 2, "larger": 2, "smaller": 2, "power": 2,
    "less": 2, "less_equal": 2, "equal": 2, "choice": 3, "exp": 1, "log": 1, "sqrt": 1, "sin": 1, "cos": 1,
    "magnitude": 1,
}  # fmt: skip
"""The number of values that a step reads, by its name. The number of a step is its position."""

NUMBERS = {name: number for number, name in enumerate(STEPS)}
MOST_INPUTS, MOST_STEPS = 5, 59
"""The largest numbers of inputs and of steps. Together they are the 64 values that a kernel keeps."""
