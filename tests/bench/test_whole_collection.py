"""Every model of the collection: what is recorded as taken is taken, and its outputs and steps are those of torch.

bench/collection/record.jsonl is the record. A model of a package is left out where the package is absent.
"""

from __future__ import annotations

import pytest
import torch

from bench.collection import catalog, checking, command, record
from bench.collection.entry import Entry

torch.set_num_threads(1)


@pytest.mark.parametrize("entry", catalog.ALL, ids=lambda entry: entry.name)
def test_model_is_taken_as_recorded_and_trains_as_in_torch(entry: Entry) -> None:
    if package := catalog.missing(entry):
        pytest.skip(f"{package} is not installed")
    row = command.taking(entry)
    assert row["is_trained"] == (entry.name in record.taken()), row["refusal"] or "taken now: add it to record.jsonl"
    wrong = [f"{each.case}: {each.wrong}" for each in checking.check(entry) if each.wrong] if row["is_trained"] else []
    assert wrong == []
