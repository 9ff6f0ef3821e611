"""AssembledExperiment: an experiment's settings and all that follows from them, as one value. assembly.py makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment
from edgefl.methods import Algorithm
from edgefl.methods.rounds.round_closing import AggregationSettings
from edgefl.models.graph import Model


@dataclass(frozen=True, eq=False)
class AssembledExperiment:
    """An experiment that has been resolved. Code that has this value needs neither the settings nor the data set again.

    experiment   the settings
    algorithms   every method with its hyper-parameters, by the method's label
    federations  for every seed the graph, the initial parameters, the samples, and which of the samples each client
                 trains on, validates on and is tested on. The seeds are in the order in which they are run
    model        the model that the settings name by its content. None: the settings name a built-in model
    """

    experiment: Experiment
    algorithms: Mapping[str, Algorithm]
    federations: Mapping[int, Federation]
    model: Model | None = None

    @staticmethod
    def of(experiment: Experiment, federation: Federation) -> AssembledExperiment:
        """Combine the experiment with a federation that the caller has made. Nothing is checked."""
        return AssembledExperiment(experiment, experiment.algorithms(), {federation.seed: federation})

    @property
    def federation(self) -> Federation:
        """Return the federation of the first seed."""
        return next(iter(self.federations.values()))

    @property
    def aggregation_settings(self) -> AggregationSettings:
        """Return the settings by which a server weights and aggregates accepted replies. Where the settings do not
        limit how many training samples of a client count, the largest client of the first seed sets the limit.
        """
        return self.experiment.aggregation_settings(self.federation.largest)

    def tuned(self, experiment: Experiment) -> AssembledExperiment:
        """Return the same federations with the methods of these settings, which differ in hyper-parameters only."""
        return replace(self, experiment=experiment, algorithms=experiment.algorithms())
