"""The kind of open round that the rules of a run ask for: replies one by one, or sums of groups of replies."""

from __future__ import annotations

from edgefl.methods.algorithm import Algorithm
from edgefl.methods.plan import Plan
from edgefl.methods.task import State, Task
from edgefl.server.open_round import OpenRound
from edgefl.server.round_rules import Rules


def opened(task: Task, algorithm: Algorithm, state: State, plans: list[Plan], number: int, rules: Rules) -> OpenRound:
    """Return the open round of these plans, as the rules of the run ask for it."""
    if rules.secure is None:
        return OpenRound(task, algorithm, state, plans, number, rules.values)
    from edgefl.server.secure_round import SecureRound  # the package cryptography is optional

    return SecureRound(task, algorithm, state, plans, number, rules.values, rules.secure, rules.aggregation_settings)
