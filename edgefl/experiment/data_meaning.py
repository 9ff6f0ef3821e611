"""data.json: how a run has understood the user's own data. The file lies in the run's directory, next to the settings.

    notes         sentences, one for each thing that edgefl assumed about the data
    label_values  the whole numbers that labels 0, 1, ... were in the data
    class_names   the names of the classes 0, 1, ..., where the data have texts as labels
    standardised  the means and spreads by which inputs and targets were standardised (data/standardisation.py)

The data and the settings give the same result when they are read again. The file gives it without the data, so that a
trained model answers in the units and labels of the data (study/export/original_units.py). A published data set has no
such file.
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
    """The meaning that the reader found in the data. Each field is a field of data.json."""

    notes: tuple[str, ...] = ()
    label_values: tuple[int, ...] | None = None
    standardised: Standardisation | None = None
    class_names: tuple[str, ...] | None = None

    @staticmethod
    def of(data: DataSet) -> DataMeaning:
        """Return the meaning of data that are ready to be trained on."""
        names = data.class_names if data.label_values is None else None  # else they are the values as texts
        return DataMeaning(data.notes, data.label_values, data.standardised, names)

    def classes(self, outputs: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """Return the classes in the data of a model's outputs, or None for the data's classes in order.

        outputs  the labels that the outputs stand for. None: the labels in order
        """
        if self.label_values is None:
            return outputs
        return self.label_values if outputs is None else tuple(self.label_values[each] for each in outputs)

    def names(self, classes: tuple[int, ...] | None, outputs: int) -> tuple[str, ...] | None:
        """Return the name of the class of each output, or None if the classes have no names or the outputs are values.

        The outputs stand for `classes`, or for the classes of the data in order where `classes` is None.
        """
        known = self.class_names or ()
        if classes is None:
            return self.class_names if known and len(known) == outputs else None
        return tuple(known[each] for each in classes) if known and max(classes, default=0) < len(known) else None


NOTHING_SAID = DataMeaning()


def write_meaning(run: Path, meaning: DataMeaning) -> None:
    """Write the file into a run's directory, unless there is nothing to say or the file says it already."""
    if meaning == NOTHING_SAID or read_meaning(run) == meaning:
        return
    scales = None if meaning.standardised is None else meaning.standardised.to_json()
    content = {"notes": meaning.notes, "label_values": meaning.label_values, "standardised": scales}
    content |= {} if meaning.class_names is None else {"class_names": meaning.class_names}
    write_atomically(run / DATA_JSON, json.dumps(with_digest(content), indent=1).encode())


def read_meaning(run: Path) -> DataMeaning:
    """Read the file of a run. Return an empty meaning if there is no file. Raises RunError if the file is damaged."""
    try:
        content = read_json(run / DATA_JSON)
    except FileNotFoundError:
        return NOTHING_SAID
    try:
        values, scales, names = content["label_values"], content["standardised"], content.get("class_names")
        return DataMeaning(
            tuple(map(str, content["notes"])),
            None if values is None else tuple(map(int, values)),
            None if scales is None else Standardisation.from_json(scales),
            None if names is None else tuple(map(str, names)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{run / DATA_JSON}: {error}; expected what edgefl writes there") from None
