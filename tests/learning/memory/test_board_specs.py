"""`edgefl memory --board`: boards as data, and what fits one, whatever machine this is."""

from __future__ import annotations

import json

import pytest

from edgefl import kernels
from edgefl.cli.cli import main
from edgefl.learning.memory.board_specs import BOARDS, GIB, choose


def test_boards_are_facts_with_sources() -> None:
    for name, board in BOARDS.items():
        assert board.source, name
        assert list(board.memory) == sorted(board.memory), name
        assert 0 < choose(name).left_bytes < board.memory[0], name
        assert board.cores.l1_data < board.cores.l2 and board.cores.number >= 4, name
    assert choose("pi4:4GB").memory == 4 * GIB
    assert "4 x Cortex-A76 at 2.4 GHz, L1d 64 kB, L2 512 kB each, L3 2 MB" in str(choose("pi5"))
    for wrong, message in (
        ("pi9", "expected one of pi-zero2, pi3"),
        ("pi4:3GB", "expected pi4 with 1GB, 2GB, 4GB, 8GB"),
    ):
        with pytest.raises(ValueError, match=message):
            choose(wrong)


def test_what_fits_a_board_is_told_for_its_cores(capsys: pytest.CaptureFixture[str]) -> None:
    ops = kernels.backend()
    is_native = ops.__name__.endswith("native")
    before = (ops.threads(), ops.isa()) if is_native else None
    found = {}
    for board in ("pi-zero2", "agx-orin"):
        words = ["memory", "fedspu_emnist", "--board", board, "--keep", "1", "--batch", "16", "--json"]
        assert main([*words, "--fit", "8MB"]) == 0
        said = capsys.readouterr()
        assert choose(board).board.title in said.err
        found[board] = json.loads(said.out)["chosen"]["footprint"]["parts"]["scratch"]
        assert main(words) == 0
        assert json.loads(capsys.readouterr().out)["limit_bytes"] == choose(board).left_bytes
    assert (found["pi-zero2"] < found["agx-orin"]) == is_native  # packing memory is a thread's own
    assert before == ((ops.threads(), ops.isa()) if is_native else None)
    assert main(["memory", "fedspu_emnist", "--board", "pi4", "--measure"]) == 2
    assert "--board pi4 with --measure" in capsys.readouterr().err
