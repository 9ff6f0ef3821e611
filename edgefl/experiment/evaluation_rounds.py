"""The choice of the rounds after which clients' models are evaluated. study/simulation/evaluation.py evaluates them."""

from __future__ import annotations

EVALUATIONS = 20  # approximate number of evaluations of a run, if the user has given no interval


def default_interval(rounds: int) -> int:
    """Return the number of rounds between evaluations. A run of so many rounds is then evaluated 16 to 30 times, or
    after every round if it has fewer than 16.
    """
    return max(1, (rounds + EVALUATIONS // 2) // EVALUATIONS)


def is_evaluated(round: int, eval_every: int, evaluate_first: bool) -> bool:
    """Return whether the models are evaluated after this round. The last round is always evaluated."""
    return round % eval_every == 0 or (evaluate_first and round == 1)
