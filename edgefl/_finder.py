"""Find modules of edgefl whose files are not where their names say: the server in a checkout, and former paths.

In a checkout the folder `server/` lies next to `edgefl/`, which has stubs of it at most. In an installed package it
lies inside `edgefl/`, where Python finds it. The former paths are the paths that the documentation named until November
2026. Each former path warns once.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any
from warnings import warn

HERE = os.path.dirname(os.path.abspath(__file__))
SERVER = os.path.join(os.path.dirname(HERE), "server")
IS_CHECKOUT = os.path.isdir(SERVER) and not os.path.isfile(os.path.join(HERE, "server", "__init__.py"))
FORMER = {  # a documented former path -> the present path
    "edgefl.algorithms": "edgefl.methods",
    "edgefl.algorithms.base": "edgefl.methods",
    "edgefl.algorithms.training": "edgefl.methods.local_steps",
    "edgefl.codec": "edgefl.protocol.codec",
    "edgefl.codec.coded": "edgefl.protocol.codec.entropy_code",
    "edgefl.codec.masks": "edgefl.protocol.codec.masks",
    "edgefl.data": "edgefl.experiment.data",
    "edgefl.data.images": "edgefl.experiment.data.images",
    "edgefl.data.npz": "edgefl.experiment.data.npz",
    "edgefl.device": "edgefl.deployment.device",
    "edgefl.device.model": "edgefl.deployment.device.device_model",
    "edgefl.energy": "edgefl.learning.energy",
    "edgefl.experiment.assemble": "edgefl.experiment.assembly",
    "edgefl.experiment.shares": "edgefl.experiment.client_dataset",
    "edgefl.graph": "edgefl.models.graph",
    "edgefl.graph.models": "edgefl.models.graph.architectures",
    "edgefl.graph.operations": "edgefl.models.graph.operations",
    "edgefl.learners": "edgefl.learning",
    "edgefl.learners.batches": "edgefl.learning.batches",
    "edgefl.neurons": "edgefl.models.neurons",
    "edgefl.neurons.gather": "edgefl.models.neurons.gather",
    "edgefl.neurons.mask": "edgefl.models.neurons.mask",
    "edgefl.neurons.selection": "edgefl.models.neurons.neuron_set",
    "edgefl.neurons.spec": "edgefl.models.neurons.model_spec",
    "edgefl.neurons.update": "edgefl.models.neurons.update",
    "edgefl.nn": "edgefl.torch",
    "edgefl.simulation": "edgefl.study.simulation",
    "edgefl.simulation.journal": "edgefl.study.simulation.journal",
    "edgefl.simulation.loop": "edgefl.study.simulation.round_loop",
    "edgefl.wire": "edgefl.protocol.wire",
    "edgefl.wire.frames": "edgefl.protocol.wire.frames",
    "edgefl.wire.messages": "edgefl.protocol.wire.messages",
}
NAMES = {
    "Local": "ClientState",
    "Tally": "Accumulator",
    "read_share": "read_partition",
}  # a former name -> the present name


class Finder:
    """An entry of sys.meta_path. Python asks it first. An editable install of another checkout has an entry, too, which
    would find the server of that checkout.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the specification of the server in a checkout or of a former path, and None for every other name."""
        if name == "edgefl.server" and IS_CHECKOUT:
            loader = SourceFileLoader(name, os.path.join(SERVER, "__init__.py"))
            spec = ModuleSpec(name, loader, origin=loader.path, is_package=True)
            spec.submodule_search_locations, spec.has_location = [SERVER], True
            return spec
        if name in FORMER:
            return ModuleSpec(name, FormerLoader(), is_package=True)  # type: ignore[arg-type]
        return None


class FormerLoader:
    """A loader that makes a module at a former path, which hands out the names of the module at the present path."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        now = FORMER[spec.name]
        sentence = import_module("edgefl.errors").former_name(spec.name, now)  # `import edgefl` needs no such sentence
        warn(sentence, FutureWarning, stacklevel=2)
        module = ModuleType(spec.name, f"{now}, under its path of before.")

        def get(name: str) -> Any:
            if name.startswith("__"):  # Python asks for such names, and __path__ would lead to a second copy
                raise AttributeError(name)
            return getattr(import_module(now), NAMES.get(name, name))

        module.__getattr__ = get  # type: ignore[method-assign]
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Run nothing. Names are looked up when they are asked for."""


def install() -> None:
    """Add the finder to sys.meta_path."""
    sys.meta_path.insert(0, Finder)
