"""Layer norm that exporters before opset 17 write out: (x - mean) / sqrt(mean of (x - mean)^2 + eps).

The affine pair behind it is a product and a sum, which operators_of_norms.py takes into the norm.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgefl.models.onnx.axis_atoms import OnnxResult
from edgefl.models.onnx.index_tracing import Tracer
from edgefl.models.onnx.onnx_call import Constant, OnnxCall, OnnxValue
from edgefl.models.onnx.onnx_content import OnnxNode
from edgefl.models.onnx.operators_of_norms import layer_normed


class NormPatterns:
    """The search for layer norms at the quotients of a file."""

    def __init__(self, tracer: Tracer, makers: Mapping[str, OnnxNode], values: Mapping[str, OnnxValue]) -> None:
        self._tracer, self._makers, self._values = tracer, makers, values

    def layer_norm(self, call: OnnxCall) -> OnnxResult | None:
        """Return the result of a layer norm whose quotient is this node, or None."""
        spread = self._maker(call.node.inputs[1], "Sqrt") if call.node.operator == "Div" else None
        shifted = None if spread is None else self._maker(spread.inputs[0], "Add")
        if shifted is None:
            return None
        for at in (0, 1):
            eps, variance = self._tracer.scalar(shifted.inputs[at]), self._maker(shifted.inputs[1 - at], "ReduceMean")
            if eps is not None and variance is not None:
                centred = self._centred(call.node.inputs[0])
                if centred is not None and self._centred(self._squared(variance.inputs[0])) == centred:
                    return self._added(call, centred, self._axes(variance), eps)
        return None

    def _added(
        self, call: OnnxCall, centred: tuple[str, tuple[int, ...]], axes: tuple[int, ...], eps: float
    ) -> OnnxResult | None:
        value = self._values.get(centred[0])
        if not isinstance(value, OnnxResult) or not axes or axes != centred[1]:
            return None
        one, zero = (Constant(np.full(1, number, np.float32)) for number in (1, 0))
        return layer_normed(call, value, sorted(value.axis(at) for at in axes), float(f"{eps:.6g}"), one, zero)

    def _maker(self, name: str, operator: str) -> OnnxNode | None:
        node = self._makers.get(name)
        return node if node is not None and node.operator == operator else None

    def _axes(self, mean: OnnxNode) -> tuple[int, ...]:
        """Return the axes of a mean that keeps them, or an empty tuple for another mean."""
        found = mean.attributes.get("axes")
        if found is None and len(mean.inputs) > 1 and (array := self._tracer.constant(mean.inputs[1])) is not None:
            found = array.ravel()[:8].tolist()
        return tuple(found) if isinstance(found, list) and mean.attributes.get("keepdims", 1) else ()

    def _centred(self, name: str) -> tuple[str, tuple[int, ...]] | None:
        """Return x and the axes of the mean for the name of x - mean(x), or None."""
        difference = self._maker(name, "Sub")
        mean = None if difference is None else self._maker(difference.inputs[1], "ReduceMean")
        if difference is None or mean is None or mean.inputs[0] != difference.inputs[0]:
            return None
        return difference.inputs[0], self._axes(mean)

    def _squared(self, name: str) -> str:
        """Return the name of what is squared, or "" if it is not a square."""
        power, product = self._maker(name, "Pow"), self._maker(name, "Mul")
        if power is not None:
            return power.inputs[0] if self._tracer.scalar(power.inputs[1]) == 2 else ""
        return product.inputs[0] if product is not None and len(set(product.inputs)) == 1 else ""
