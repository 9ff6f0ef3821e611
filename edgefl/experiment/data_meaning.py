"""data.json: what a run has taken its data for, beside its settings. Only of somebody's own data is there something.

    notes         sentences, one for each thing that was taken for something
    label_values  the whole numbers that labels 0, 1, ... were in the data
    standardised  the means and spreads by which inputs and targets were standardised (data/standardisation.py)

The data and the settings say the same again when they are read again; the file says it without the data, so that a
trained model answers in the units and labels of the data (study/export/original_units.py).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from edgefl.errors import RunError
from edgefl.experiment.data.dataset import DataSet
from edgefl.experiment.data.scales import Standardisation
from edgefl.system.durable_files import read_json, with_digest, write_atomically

DATA_JSON = "data.json"


@dataclass(frozen=True)
class DataMeaning:
    """The meaning that the reader found in the data; each field is a field of data.json."""

    notes: tuple[str, ...] = ()
    label_values: tuple[int, ...] | None = None
    standardised: Standardisation | None = None

    @staticmethod
    def of(data: DataSet) -> DataMeaning:
        """Of data that are ready to be trained on."""
        return DataMeaning(data.notes, data.label_values, data.standardised)

    def classes(self, outputs: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """The classes in the data that each output of a model stands for, where an output stands for these classes;
        None: the data's classes in order.
        """
        if self.label_values is None:
            return outputs
        return self.label_values if outputs is None else tuple(self.label_values[each] for each in outputs)


NOTHING_SAID = DataMeaning()


def write_meaning(run: Path, meaning: DataMeaning) -> None:
    """Writes the file into a run's directory; none if there is nothing to say, or if it says so already."""
    if meaning == NOTHING_SAID or read_meaning(run) == meaning:
        return
    scales = None if meaning.standardised is None else meaning.standardised.to_json()
    content = {"notes": meaning.notes, "label_values": meaning.label_values, "standardised": scales}
    write_atomically(run / DATA_JSON, json.dumps(with_digest(content), indent=1).encode())


def read_meaning(run: Path) -> DataMeaning:
    """Read the file of a run; nothing if there is no file. Raises RunError if the file is damaged."""
    try:
        content = read_json(run / DATA_JSON)
    except FileNotFoundError:
        return NOTHING_SAID
    try:
        values, scales = content["label_values"], content["standardised"]
        return DataMeaning(
            tuple(map(str, content["notes"])),
            None if values is None else tuple(map(int, values)),
            None if scales is None else Standardisation.from_json(scales),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{run / DATA_JSON}: {error}; expected what edgefl writes there") from None
