"""After which rounds of a run the clients' models are evaluated. Not how (study/simulation/evaluation.py)."""

from __future__ import annotations

EVALUATIONS = 20  # about so many times, where nobody has asked for a number of rounds


def default_interval(rounds: int) -> int:
    """The number of rounds between evaluations with which a run of so many rounds is evaluated 16 to 30 times, or after
    every round of fewer than 16.
    """
    return max(1, (rounds + EVALUATIONS // 2) // EVALUATIONS)


def is_evaluated(round: int, eval_every: int, evaluate_first: bool) -> bool:
    """Whether the models are evaluated after this round, which is not the last one: the last round always is."""
    return round % eval_every == 0 or (evaluate_first and round == 1)
