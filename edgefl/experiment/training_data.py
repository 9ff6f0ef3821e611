"""The training data of a run, for running its model on other samples: columns, texts, means and scaling.

data/model_inputs.py reads the other samples.
"""

from __future__ import annotations

import os
from pathlib import Path

from edgefl.experiment import model_file
from edgefl.experiment.assembly import assemble
from edgefl.experiment.data.column_choice import MEAN
from edgefl.experiment.data.missing_values import means
from edgefl.experiment.data.model_inputs import Training
from edgefl.experiment.run_data import data_of_run
from edgefl.experiment.settings import Experiment


def trained_on(run: Path, data_dir: str | os.PathLike[str] | None = None) -> Training:
    """Return the data of the first seed of the run in this directory. Raises RunError or DataError without the data."""
    experiment = Experiment.of_run(run)
    data = data_of_run(run, experiment, data_dir)
    filling = None
    if data.absent is not None or experiment.missing == MEAN:
        federation = assemble(experiment, data_dir, model_file.kept(run, experiment.model), data)
        filling = means(data, [client.train for client in federation.clients]) if data.x.ndim == 2 else None
    return Training(data, experiment.how_to_read(), filling)
