"""Twenty questions of a newcomer, written before the rooms were moved, and the file that answers each.

A person, or a program, that has only docs/architecture.md and a listing of the files should find these answers. What a
test can hold is that every answer exists and that the page names it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

ANSWERS = {
    "In which file is the round loop of a simulation?": "edgefl/study/simulation/round_loop.py",
    "In which file does FedSPU choose which clients and neurons take part?": "edgefl/methods/fedspu.py",
    "In which file are the active neurons of a client drawn?": "edgefl/models/neurons/neuron_set.py",
    "In which file is an update written as the bytes of a payload?": "edgefl/protocol/codec/encoding.py",
    "In which file does it stand which message may come in which state?": "edgefl/protocol/wire/connection.py",
    "In which file are the protocol's messages defined?": "edgefl/protocol/wire/messages.py",
    "In which file is written what a device keeps on disk across a crash?": "edgefl/deployment/device/device_state.py",
    "In which file are the tables of the server's database?": "server/schema.py",
    "In which file is decided how long a served round may take?": "server/round_deadline.py",
    "In which file does the server decide what follows from a message?": "server/device_sessions.py",
    "In which file is a CSV table of samples read?": "edgefl/experiment/data/csv_table.py",
    "In which file are samples partitioned among clients by a Dirichlet distribution?": (
        "edgefl/experiment/data/partition.py"
    ),
    "In which file are the built-in architectures listed?": "edgefl/models/graph/architectures.py",
    "In which file do traced calls of a torch module become a graph?": "edgefl/torch/graph_converter.py",
    "In which file is the backward pass lowered to kernel calls?": "edgefl/learning/lowering/backward.py",
    "In which file is the native learner's memory computed tensor by tensor?": "edgefl/learning/memory/exact.py",
    "In which file are the ERK densities of a sparse model?": "edgefl/models/neurons/density.py",
    "In which file do masks lose weights and grow others?": "edgefl/models/neurons/prune_and_grow.py",
    "In which file is the energy that a battery gave read?": "edgefl/learning/energy/battery.py",
    "In which file does every kernel operation have its row?": "edgefl/kernels/table.py",
}


@pytest.mark.parametrize("question", ANSWERS)
def test_the_page_names_the_file_that_answers(question: str) -> None:
    assert (ROOT / ANSWERS[question]).is_file()
    assert ANSWERS[question] in (ROOT / "docs" / "architecture.md").read_text("utf-8")


def test_there_are_twenty_questions() -> None:
    assert len(ANSWERS) == 20
