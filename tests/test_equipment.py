"""`python -m tests WHAT` finds every command, and `python -m bench` says where the commands have gone."""

from __future__ import annotations

import pytest

from bench.__main__ import MOVED
from bench.__main__ import main as bench
from tests.__main__ import COMMANDS, main


@pytest.mark.parametrize("what", COMMANDS)
def test_a_command_tells_its_options(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([what, "--help"])
    assert end.value.code == 0
    assert f"usage: python -m tests {what}" in capsys.readouterr().out


def test_a_bench_that_has_moved_is_named_with_its_new_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(MOVED) == set(COMMANDS)
    assert bench(["vopr", "--seed", "8"]) == 2
    assert capsys.readouterr().err == "python -m bench vopr has moved; run python -m tests vopr\n"
