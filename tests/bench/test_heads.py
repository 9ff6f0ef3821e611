"""python -m bench heads measures what it says: a round of each method, in turns."""

from __future__ import annotations

from bench import heads


def test_a_figure_for_every_degree_of_personalisation() -> None:
    found = list(heads.measure(heads.QUICK))
    assert [figure.what.split(", ")[1] for figure in found] == [
        f"{d} personalisation" for d in ("high", "medium", "no")
    ]
    assert all(figure.value > 0 and figure.bar == 0.1 for figure in found)
    assert "10 classes, tau 3, 600 examples" in found[-1].note
