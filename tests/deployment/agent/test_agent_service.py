"""`edgefl agent` in processes of its own: killed while its conditions change, its runs end as their simulations."""

from __future__ import annotations

from pathlib import Path

from tests.faults import service


def test_three_runs_of_two_servers_end_as_their_simulations(tmp_path: Path) -> None:
    """There are five kills at random moments. `python -m tests faults agent` has twenty."""
    result = service.run(tmp_path / "trial", kills=5, seed=2, rounds=2, epochs=5)
    assert result.differences == [None, None, None], result
    assert result.kills >= 3
    assert sum(result.moments.values()) == result.kills
