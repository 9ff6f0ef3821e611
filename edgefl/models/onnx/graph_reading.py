"""The reading of an ONNX graph: each node becomes operations, a constant, or the reason why it becomes neither.

OPERATORS has the meaning of every operator. A node that cannot be read stops nothing at first: only the output may not
depend on it. So a file is refused with all of its causes at once.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from edgefl.errors import GraphError
from edgefl.models.graph.graph import INPUT, Model
from edgefl.models.graph.operations import Shape
from edgefl.models.onnx import operators_of_arithmetic as arithmetic
from edgefl.models.onnx import operators_of_norms as norms
from edgefl.models.onnx import operators_of_pools as pools
from edgefl.models.onnx import operators_of_products as products
from edgefl.models.onnx.activation_patterns import ANCHORS, Expressions
from edgefl.models.onnx.attention_pattern import AttentionPatterns
from edgefl.models.onnx.axis_atoms import BATCH, OPEN_BATCH, OnnxResult, standard
from edgefl.models.onnx.constant_folding import FOLDS, folded
from edgefl.models.onnx.graph_assembly import Assembly
from edgefl.models.onnx.index_tracing import Tracer
from edgefl.models.onnx.joined_expressions import joined
from edgefl.models.onnx.node_names import Naming
from edgefl.models.onnx.norm_pattern import NormPatterns
from edgefl.models.onnx.onnx_call import Cause, ComputationBudget, Constant, OnnxCall, OnnxValue, Unavailable
from edgefl.models.onnx.onnx_content import OnnxContent, OnnxInput, OnnxNode
from edgefl.models.onnx.operators_of_activations import ACTIVATIONS, applied
from edgefl.models.onnx.operators_of_expressions import FUNCTIONS, expression, or_expression, reduction
from edgefl.models.onnx.operators_of_sequences import SEQUENCES
from edgefl.models.onnx.operators_of_shapes import SHAPES, tied
from edgefl.models.onnx.refusals import PARTS, refusal, unknown
from edgefl.models.onnx.transformer_patterns import TransformerPatterns

OPERATORS: dict[str, Callable[[OnnxCall], Any]] = {
    **ACTIVATIONS,
    **SHAPES,
    **SEQUENCES,
    "Conv": products.conv,
    "ConvTranspose": products.conv_transpose,
    "Gemm": products.gemm,
    "MatMul": products.matmul,
    "BatchNormalization": norms.batch_norm,
    "LayerNormalization": norms.layer_norm,
    "InstanceNormalization": norms.instance_norm,
    "GroupNormalization": norms.group_norm,
    "MaxPool": pools.max_pool,
    "AveragePool": pools.average_pool,
    "GlobalAveragePool": pools.global_average,
    "GlobalMaxPool": pools.global_max,
    **dict.fromkeys(FUNCTIONS, expression),
    "ReduceMean": or_expression(pools.reduce_mean),
    "ReduceMax": or_expression(pools.reduce_max),
    "ReduceSum": reduction,
    "ReduceMin": reduction,
    "Pad": pools.pad,
    "Resize": pools.resize,
    "Upsample": pools.resize,
    "Add": or_expression(arithmetic.add),
    "Sub": or_expression(arithmetic.sub),
    "Mul": or_expression(arithmetic.mul),
    "Div": or_expression(arithmetic.div),
    "Neg": arithmetic.neg,
    "Concat": arithmetic.concat,
}
"""The meanings of ONNX's operators, by name."""

SOFTMAXES = ("Softmax", "LogSoftmax")
READS_IDS = ("Gather", "Cast", "Identity", "Shape", "Squeeze", "Unsqueeze")
MOST_CAUSES = 64  # causes that are kept for one value


class OnnxReading:
    """One pass over the nodes of a file."""

    def __init__(self, content: OnnxContent, input_shape: Shape | None = None) -> None:
        self._content = content
        shape, self._batch = input_shape_of(content.input, input_shape)
        self._assembly = Assembly(shape)
        start = replace(standard(INPUT, shape, self._batch), is_ids=content.input.is_ids)
        self._values: dict[str, OnnxValue] = {
            name: Constant(array, name, name) for name, array in content.constants.items()
        }
        self._values[content.input.name] = start
        self._aliases: dict[str, list[str]] = {INPUT: [content.input.name]}
        self._uses = Counter(name for node in content.nodes for name in node.inputs) + Counter([content.output])
        self._makers = makers_of(content)
        self._copies = {node.inputs[0]: node.outputs[0] for node in content.nodes if node.operator == "Identity"}
        self._expressions = Expressions(self._makers, self._values)
        self._budget = ComputationBudget()
        tracer = Tracer(self._makers, self._values, self._budget)
        self._attention = AttentionPatterns(tracer, self._makers, self._assembly)
        self._norms = NormPatterns(tracer, self._makers, self._values)
        self._transformers = TransformerPatterns(tracer, self._makers, self._values)
        for node in content.nodes:
            self._read(node)

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Return every reason why the output cannot be had. The tuple is empty if the output can be had."""
        found = self._values.get(self._content.output)
        return found.causes if isinstance(found, Unavailable) else ()

    def model(self) -> Model:
        """Return the model. Raises GraphError with the causes if the output depends on what edgefl cannot read."""
        if self.causes:
            raise GraphError(refusal(self.causes))
        found = self._values.get(self._content.output)
        if not isinstance(found, OnnxResult):
            raise GraphError(f"the output {self._content.output[:200]!r} does not follow from the input")
        model = self._assembly.model(self._placed_output(found), Naming(), joined)
        for name, array in model.params.items():
            if not np.isfinite(array).all():
                raise GraphError(f"parameter {name!r} has values that are not finite; expected finite numbers")
        return model

    def _placed_output(self, found: OnnxResult) -> str:
        if found.axes[:1] != ((BATCH,),):
            raise GraphError(f"the output is {found}; expected [batch, ...]: {tied(found)}")
        return self._assembly.placed(found, found.axes[1:] or [()])

    def _read(self, node: OnnxNode) -> None:
        inputs = tuple(self._values[name] if name else None for name in node.inputs)
        self._assembly.label, self._assembly.module = node.name or node.outputs[0], node.module
        try:
            found = self._found(node, inputs)
        except GraphError as error:
            found = Unavailable((Cause(node, str(error)),))
        except (ArithmeticError, LookupError, ValueError, TypeError) as error:  # settings that no exporter writes
            found = Unavailable((Cause(node, f"settings that contradict each other ({error}); expected a valid node"),))
        results = found if isinstance(found, tuple) else (found,)
        for at, name in enumerate(node.outputs):
            if name:
                result = results[at] if at < len(results) else Unavailable((Cause(node, f"its result {at} is used"),))
                self._values[name] = result
                if isinstance(result, OnnxResult):
                    self._aliases.setdefault(result.name, []).append(name)

    def _found(self, node: OnnxNode, inputs: tuple[OnnxValue | None, ...]) -> Any:
        call = OnnxCall(
            node, inputs, self._content.opset, self._assembly, self._batch, self._uses, self._aliases, self._budget
        )
        if all(each is None or isinstance(each, Constant) for each in inputs):
            return folded(call)
        if (written_out := self._written_out(call)) is not None:
            return written_out
        if lost := [each for each in inputs if isinstance(each, Unavailable)]:
            apart = {id(each.causes): each.causes for each in lost}
            causes = dict.fromkeys(cause for each in apart.values() for cause in each)
            own = () if node.operator in {*OPERATORS, *FOLDS, *PARTS} else (unknown(node),)
            return Unavailable((*causes, *own)[:MOST_CAUSES])
        if node.operator in SOFTMAXES:
            return self._without_softmax(call)
        if any(isinstance(each, OnnxResult) and each.is_ids for each in inputs) and node.operator not in READS_IDS:
            raise GraphError("reads integers from the input; expected ids that are looked up in a table by Gather")
        if node.operator not in OPERATORS:
            return Unavailable((unknown(node),))
        return OPERATORS[node.operator](call)

    def _written_out(self, call: OnnxCall) -> OnnxResult | None:
        """Return the result of an operation that the file writes as several operators, or None."""
        for search in (self._norms.layer_norm, self._attention.attention, self._transformers.found):
            if (found_whole := search(call)) is not None:
                return found_whole
        if call.node.operator not in ANCHORS or (found := self._expressions.activation(call.node)) is None:
            return None
        value = self._values[found[1]]
        return applied(call, found[0], value) if isinstance(value, OnnxResult) else None

    def _without_softmax(self, call: OnnxCall) -> OnnxResult:
        """Leave out a softmax of the logits at the end of the model."""
        value, output = call.value(), call.node.outputs[0]
        axis = value.axis(call.attribute("axis", -1 if call.opset >= 13 else 1))
        while self._uses[output] == 1 and (after := self._copies.get(output)) is not None:
            output = after
        if output != self._content.output or value.rank != 2 or axis != 1:
            raise GraphError("expected at the end only, over the classes")
        warnings.warn(f"{call.node} at the end is left to the loss: outputs are logits", stacklevel=2)
        return value


def makers_of(content: OnnxContent) -> dict[str, OnnxNode]:
    """Return the node that makes each value, by the name of the value.

    Raises  GraphError for a name that two things have, and for an input that nothing makes or that comes later
    """
    makers = {name: node for node in content.nodes for name in node.outputs if name}
    known = {content.input.name, *content.constants}
    for node in content.nodes:
        for name in node.inputs:
            if name and name not in known:
                why = "comes later; expected the order of computation" if name in makers else "is made by nothing"
                raise GraphError(f"{node}: input {name[:200]!r} {why}")
        for name in node.outputs:
            if name in known:
                raise GraphError(f"{node}: the name {name[:200]!r} is taken; expected different names")
            known |= {name} - {""}
    if content.output not in known:
        raise GraphError(f"the output {content.output[:200]!r} is made by nothing; expected the result of a node")
    return makers


def input_shape_of(found: OnnxInput, given: Shape | None) -> tuple[Shape, int]:
    """Return the shape of a sample, and the number that stands for the batch size.

    given   shape for extents that the file leaves open
    Raises  GraphError if the shapes contradict each other, or if an extent is open and none is given
    """
    name = f"input {found.name[:200]!r}"
    if not 2 <= len(found.extents) <= 4:
        raise GraphError(f"{name} has {len(found.extents)} axes; expected [batch, ...] with one to three further axes")
    first, *rest = (None if isinstance(each, str) or each < 1 else each for each in found.extents)
    if first not in (None, 1):
        cure = "export with a batch axis that is dynamic, or with an example of one sample"
        raise GraphError(f"{name} has a batch of {first}; expected an open batch, or 1: {cure}")
    if given is not None and (len(given) != len(rest) or any(a not in (None, b) for a, b in zip(rest, given))):
        shown = ", ".join("?" if each is None else str(each) for each in rest)
        raise GraphError(f"{name} takes examples of shape ({shown}); expected {given}, as --input says")
    shape = tuple(each or 0 for each in rest) if given is None else given
    if 0 in shape:
        names = ", ".join(str(each) for each in found.extents[1:] if isinstance(each, str) or each < 1)
        raise GraphError(f"{name} leaves open: {names}; expected the shape of one example: give --input C,H,W")
    if max(shape) >= OPEN_BATCH:
        raise GraphError(f"{name} takes examples of shape {shape}; expected extents below {OPEN_BATCH}")
    return shape, first or OPEN_BATCH
