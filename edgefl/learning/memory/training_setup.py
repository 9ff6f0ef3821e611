"""The setup that a memory account describes: a model, a batch and a method, and the training passes of a round. Nothing
runs here.

full    every parameter is trained
fedspu  the full model is held, and the active blocks of a share of its neurons are trained (ALGORITHMS 1). With a cut
        only blocks after the cut are trained, on results at the cut that are kept for all examples
sparse  only the coordinates of a mask are held and trained, a share of the weights chosen by ERK (ALGORITHMS 3)
drop    the sub-model of a share of the neurons is held and trained (Random Dropout, and FjORD at one width)
pflego  head steps on cached features of all examples, then one joint gradient in chunks of a batch (ALGORITHMS 6). The
        model's own head is held in addition to the personal head, which here has as many classes

Passes without a gradient (evaluation, features) take chunks that fit besides the parameters. No account counts them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

from edgefl.learning.losses import CROSS_ENTROPY, Loss
from edgefl.learning.lowering.lower import Mode
from edgefl.learning.lowering.updates import Terms
from edgefl.learning.memory.footprint import Footprint
from edgefl.learning.running.cached_prefix import kept_bytes
from edgefl.models.graph import Graph
from edgefl.models.graph.cuts import after
from edgefl.models.graph.heads import head_of
from edgefl.models.graph.operations import ParamInfo
from edgefl.models.graph.single_value_norm import single_value_norm
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.trainable_parameters import Trainable
from edgefl.rng import NEURONS, stream

Method = Literal["full", "fedspu", "sparse", "drop", "pflego"]
METHODS: tuple[Method, ...] = get_args(Method)
PARTIAL = ("fedspu", "sparse", "drop")  # methods that train a share of the neurons or of the weights
PLAIN = Terms()
SEED = 1  # seed of the draw of neurons: only under GroupNorm the bytes depend on which neurons are drawn
FLOAT = 4  # bytes


class Pass(NamedTuple):
    """One kind of step of a round: what the learner is asked to do, and what it holds meanwhile.

    graph    graph that the pass runs
    neurons  trained neurons. None is all
    batches  batch sizes that occur, the largest first
    mode     mode of the lowering (lowering/lower.py)
    idle     parameters that are held and take no part
    cached   bytes of features that are held besides the learner, which gathers its batches from them
    summed   whether gradients of earlier chunks are held
    density  share of all weights together that a mask keeps
    behind   the whole graph, and the cut behind which `graph` begins. The part before the cut runs in passes of its own
    trainable  what is trained, where it is not said by neurons
    """

    graph: Graph
    neurons: NeuronSet | None
    batches: tuple[int, ...]
    mode: Mode = "train"
    idle: tuple[ParamInfo, ...] = ()
    cached: int = 0
    summed: bool = False
    density: float = 1.0
    behind: tuple[Graph, str] | None = None
    trainable: Trainable = None

    @property
    def spec(self) -> ModelSpec:
        """The specification with the groups to which `neurons` belong."""
        return ModelSpec.of(self.graph) if self.behind is None else ModelSpec.of(self.behind[0]).part(self.graph)


@dataclass(frozen=True)
class TrainingConfiguration:
    """A way of training a model.

    model     name of the model, for reports
    graph     graph of the model
    batch     examples per step, or per chunk of the joint gradient in "pflego"
    method    one of METHODS
    keep      share of active neurons, or the density of a mask. 1 for methods that train all
    examples  number of examples in the data set, whose last batch may be smaller. None: a whole and a partial batch
              ("pflego": one batch)
    terms     terms of the update besides plain SGD, and the number format of values that wait for the backward pass
    loss      loss that is minimised
    cut       name of the result before which nothing is trained, for "fedspu"
    trainable names, a mask or slices of what is trained, for "full", as in FitOptions, or None
              for everything
    Raises    ValueError if a value is out of range, or the method trains all neurons and keep is not 1
    """

    model: str
    graph: Graph
    batch: int
    method: Method = "fedspu"
    keep: float = 1.0
    examples: int | None = None
    terms: Terms = PLAIN
    loss: Loss = CROSS_ENTROPY
    cut: str = ""
    trainable: Trainable = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method={self.method}; expected one of {', '.join(METHODS)}")
        if self.batch < 1 or (self.examples is not None and self.examples < 1):
            examples = "" if self.examples is None else f", examples={self.examples}"
            raise ValueError(f"batch={self.batch}{examples}; expected at least 1")
        if not 0 < self.keep <= 1 or (self.keep < 1 and self.method not in PARTIAL):
            expected = "0 < keep <= 1" if self.method in PARTIAL else "keep=1, as it trains all neurons"
            raise ValueError(f"keep={self.keep} with method={self.method}; expected {expected}")
        if self.cut and self.method != "fedspu":
            raise ValueError(f"cut={self.cut} with method={self.method}; expected method fedspu")
        if self.trainable is not None and self.method != "full":
            raise ValueError(f"trainable with method={self.method}; expected method full")

    def footprint(self, account: str, parts: Mapping[str, int], **more: Any) -> Footprint:
        """Return the memory of this training by an account. `more` are the fields of Footprint that the
        account knows.
        """
        return Footprint(account, self.model, self.batch, self.keep, self.method, parts, **more)

    @cached_property
    def neurons(self) -> NeuronSet | None:
        """The trained neurons, or None for all."""
        if self.keep == 1 or self.method == "sparse":
            return None
        return NeuronSet.draw(ModelSpec.of(self.graph), self.keep, stream(SEED, NEURONS))

    @property
    def trained(self) -> tuple[Graph, NeuronSet | None]:
        """The graph that is held, and its trained neurons. Raises GraphError like Graph.sub."""
        if self.method == "drop" and self.neurons is not None:
            return self.graph.sub(self.neurons), None
        return self.graph, self.neurons

    @property
    def batches(self) -> tuple[int, ...]:
        """The batch sizes that occur, the largest first."""
        if self.examples is None:
            return (self.batch, self.batch - 1) if self.batch > 1 else (1,)
        whole, rest = divmod(self.examples, self.batch)
        stepped = after(self.graph, self.cut) if self.cut else self.graph
        if rest == 1 and whole and self.batch > 1 and single_value_norm(stepped):  # the last batch is joined
            return (self.batch + 1, self.batch) if whole > 1 else (self.batch + 1,)
        return tuple(size for size in (self.batch if whole else 0, rest) if size)

    def passes(self) -> dict[str, Pass]:
        """Return the passes of a round by name. Raises GraphError if a sub-model or a head is impossible."""
        if self.method == "pflego":
            return self._pflego()
        density = self.keep if self.method == "sparse" else 1.0
        if self.cut:
            return {"step": self._behind_cut()}
        return {"step": Pass(*self.trained, self.batches, density=density, trainable=self.trainable)}

    def _behind_cut(self) -> Pass:
        graph, spec = after(self.graph, self.cut), self.graph.parameters()
        idle = tuple(info for name, info in spec.items() if name not in graph.parameters())
        beside, each = kept_bytes(math.prod(graph.input_shape), self.batches[0], self.terms, FLOAT)
        cached = beside + (self.examples or self.batch) * each
        return Pass(graph, self.neurons, self.batches, idle=idle, cached=cached, behind=(self.graph, self.cut))

    def _pflego(self) -> dict[str, Pass]:
        graph, head = self.graph, head_of(self.graph)
        examples = self.examples or self.batch
        chunks = replace(self, examples=examples).batches
        cached = FLOAT * examples * head.input_shape[0]
        everything, common = tuple(graph.parameters().values()), tuple(head.parameters().values())
        return {
            "head steps": Pass(head, None, (examples,), idle=everything, cached=cached),
            "joint gradient": Pass(graph, None, chunks, "gradient", idle=common, summed=examples > self.batch),
        }
