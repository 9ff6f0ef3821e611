"""A sample of `python -m tests faults rest`: real processes, started again on damaged files.

A run is brought to rest by steps that LD_PRELOAD counts, so this needs Linux and a C compiler.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from bench.cluster import write_partitions
from tests.faults.damage import FLIPS, Damage, Kind, damages
from tests.faults.outcome import Truth
from tests.faults.rest import SERVER, Cases, Row, Stage, judged
from tests.faults.rest_server import EXPERIMENT, server_stages
from tests.faults.rest_table import print_table
from tests.faults.steps import compiler

needs_steps = pytest.mark.skipif(
    sys.platform != "linux" or compiler() is None,
    reason="steps are counted with LD_PRELOAD, by a library built with cc",
)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cases, Stage]]:
    """A server that was killed when the replies of round 2 were there."""
    root = tmp_path_factory.mktemp("rest")
    write_partitions(root / "shares", EXPERIMENT)
    cases = Cases(root, EXPERIMENT, root / "shares", Truth.of(EXPERIMENT, root / "simulated"))
    _, stage = islice(server_stages(root / "stages", root / "shares"), 2)
    assert stage.name == "killed"
    yield cases, stage


@needs_steps
@pytest.mark.parametrize(
    ("file", "kind", "outcome"),
    [
        ("run.db-wal", "deleted", "refused"),
        ("run.db-wal", "flipped", "refused"),
        ("server/000001.safetensors", "flipped", "refused"),
        ("id", "deleted", "identical"),
    ],
)
def test_a_damaged_file_is_named_or_changes_nothing(
    file: str, kind: Kind, outcome: str, killed: tuple[Cases, Stage]
) -> None:
    cases, stage = killed
    row = cases.run(SERVER, stage, file, Damage(kind))
    assert row.outcome == outcome
    assert f"RUN/{file}" in row.words or outcome == "identical"


# The harness itself.


def test_every_change_of_a_file_happens_once(tmp_path: Path) -> None:
    file, older = tmp_path / "file", tmp_path / "older"
    file.write_bytes(bytes(range(1, 101)))
    older.write_bytes(b"before")
    found = list(damages(file, older))
    assert [each.kind for each in found] == ["deleted", "emptied", "halved", "zeroed", "older"] + FLIPS * ["flipped"]
    whole = file.read_bytes()
    for damage in found[5:]:
        content = damage.of(file)
        assert content is not None
        changed = [at for at in range(100) if content[at] != whole[at]]
        assert [at * FLIPS // 100 for at in changed] == [damage.position]
        assert (content[changed[0]] ^ whole[changed[0]]).bit_count() == 1
    older.write_bytes(whole)
    file.write_bytes(b"")
    assert list(damages(file)) == [Damage("deleted")]


@pytest.mark.parametrize(
    ("said", "after", "outcome"),
    [
        ("ok\nedgefl serve: /place/run/id is not it", {"id": b"1"}, "refused"),
        (
            "edgefl serve: something is not it",
            {"id": b"1"},
            "does not name the file: edgefl serve: something is not it",
        ),
        ("Traceback ...\nValueError: /place/run/id", {"id": b"1"}, "traceback: ValueError: /place/run/id"),
        ("edgefl serve: /place/run/id is not it", {}, "refused, but changed id"),
    ],
)
def test_only_a_sentence_that_names_the_file_and_changes_nothing_is_a_refusal(
    said: str, after: dict[str, bytes], outcome: str
) -> None:
    assert judged(said, Path("/place/run"), "id", after, {"id": b"1"})[0] == outcome


def test_a_case_that_fails_shows_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        Row("server", "killed", "id", "deleted", "identical", "", 1.0),
        Row("server", "killed", "id", "flipped in part 1 of 20", "refused", "RUN/id", 1.0),
        Row("server", "killed", "id", "flipped in part 2 of 20", "metrics of round 2", "", 1.0),
    ]
    print_table(rows)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "killed" in line]
    assert "identical" in line
    assert "1 FAILED, 1 refused" in line
