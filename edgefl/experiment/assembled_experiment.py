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
    """An experiment that has been resolved: whoever has this value asks neither the settings nor the data set again.

    experiment   the settings
    algorithms   every method with its hyper-parameters, by the method's label
    federations  for every seed the graph, the initial parameters, the samples, and which of the samples each client
                 trains on, validates on and is tested on; by the seed, in the order in which seeds are run
    model        the model that the settings name by its content; None: the settings name a built-in model
    """

    experiment: Experiment
    algorithms: Mapping[str, Algorithm]
    federations: Mapping[int, Federation]
    model: Model | None = None

    @staticmethod
    def of(experiment: Experiment, federation: Federation) -> AssembledExperiment:
        """The experiment with a federation that somebody else has made. Nothing is checked."""
        return AssembledExperiment(experiment, experiment.algorithms(), {federation.seed: federation})

    @property
    def federation(self) -> Federation:
        """The federation of the first seed."""
        return next(iter(self.federations.values()))

    @property
    def aggregation_settings(self) -> AggregationSettings:
        """What a server does with accepted replies. Unless the settings say how many training samples of a client count
        at most, the largest client of the first seed says it.
        """
        return self.experiment.aggregation_settings(self.federation.largest)

    def tuned(self, experiment: Experiment) -> AssembledExperiment:
        """The same federations with the methods of these settings, which may differ in hyper-parameters only."""
        return replace(self, experiment=experiment, algorithms=experiment.algorithms())
