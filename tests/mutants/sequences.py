"""Mutants of recurrent layers and attention: neurons, lowering, kernels, what torch and ONNX mean by them."""

from __future__ import annotations

from tests.mutants.kernels import cases
from tests.mutants.mutant import Mutant

SPEC, GRADIENTS = "tests/models/neurons/test_model_spec.py", "tests/learning/test_gradients.py"
TRACE, ONNX = "tests/torch/test_trace_sequences.py", "tests/study/export/test_onnx_nodes.py"
REFERENCE, SAVED = "tests/kernels/test_reference.py", "tests/learning/test_saved_inputs.py"
K, L = "csrc/kernels/", "edgefl/learning/lowering/"

MUTANTS = (
    Mutant(
        "gates-of-a-unit",
        "edgefl/models/neurons/parameter_axes.py",
        "return JoinedAxis(((own, size),) * gates)",
        "return AxisSpec(own.group, own.repeat * gates)",
        "a hidden unit's gates are taken to lie side by side",
        SPEC,
    ),
    Mutant(
        "columns-of-states",
        "edgefl/models/neurons/parameter_axes.py",
        'cols = {op.main: source, "weight_hh_l0": own}',
        "cols = {op.main: source}",
        "the weight of the states is trained from frozen units",
        SPEC,
    ),
    Mutant(
        "signal-of-all-units",
        f"{L}gradient_needs.py",
        "isinstance(node.op, LayerNorm | RMSNorm | Recurrent)",
        "isinstance(node.op, LayerNorm | RMSNorm)",
        "no signal passes through frozen hidden units",
        GRADIENTS,
    ),
    Mutant(
        "states-before",
        f"{L}recurrent.py",
        'gradients |= _weight(recorder, node, "weight_hh_l0", before, units, dhidden)',
        'gradients |= _weight(recorder, node, "weight_hh_l0", before, units, dinput)',
        "the states' weight of a GRU has the gradient of the input's",
        GRADIENTS,
    ),
    Mutant(
        "input-of-steps",
        f"{L}recurrent.py",
        "    if ids is None or not recorder.scope.copies:\n        recorder.inputs[node.name] = SavedInput(x, ids)",
        "    if ids is None or not recorder.scope.copies:\n        recorder.inputs[node.name] = SavedInput(x, None)",
        "of an input that stays whole the first features are taken for the active ones",
        SAVED,
    ),
    Mutant(
        "heads-in-need",
        f"{L}active_ids.py",
        "return owners(channels, op.head_dim, op.num_heads)",
        "return owners(channels, op.num_heads, op.head_dim)",
        "channels are divided among heads by their number",
        GRADIENTS,
    ),
    Mutant(
        "onnx-gates",
        "edgefl/study/export/onnx_sequences.py",
        "LSTM: (0, 3, 1, 2)",
        "LSTM: (0, 1, 3, 2)",
        "forget and output gates are exchanged in ONNX",
        ONNX,
    ),
    Mutant(
        "mask-of-nothing",
        "edgefl/torch/sequence_table.py",
        "    if is_bare and not left_out.any():\n        return False\n",
        "",
        "a mask that leaves out nothing is refused",
        TRACE,
    ),
    Mutant(
        "norm-first",
        "edgefl/torch/sequence_table.py",
        "    if layer.norm_first:",
        "    if not layer.norm_first:",
        "an encoder's layer normalises at the wrong places",
        TRACE,
    ),
    Mutant(
        "reference-reset",
        "edgefl/kernels/reference/recurrent.py",
        "dr = da * hidden[step] * r * (1 - r)",
        "dr = signal * hidden[step] * r * (1 - r)",
        "the reset gate's gradient forgets the slope of n",
        REFERENCE,
    ),
    # Kernels.
    Mutant(
        "gru-carry",
        f"{K}recurrent.inl.h",
        "        store(carry + k, mul(grad, z));",
        "        store(carry + k, zero());",
        "what a GRU keeps of a state passes no signal back",
        cases("gru_backward"),
    ),
    Mutant(
        "gru-frozen",
        f"{K}recurrent.inl.h",
        "return marks ? keep_positive(v, load(marks + k)) : v;",
        "return v;",
        "a signal that is cut passes",
        cases("lstm_backward"),
    ),
    Mutant(
        "lstm-cells",
        f"{K}recurrent.inl.h",
        "        store(cell_carry + k, mul(dcell, f));",
        "        store(cell_carry + k, mul(dcell, i));",
        "the cell's signal goes back through the input gate",
        cases("lstm_backward"),
    ),
    Mutant(
        "recurrence-start",
        f"{K}recurrent.inl.h",
        "            if (bias) copy_floats(start + g * room, bias + g * shape.units, shape.units);",
        "            if (bias) copy_floats(start + g * room, bias, shape.units);",
        "every gate has the first one's bias",
        cases("lstm_forward"),
    ),
    Mutant(
        "causal-diagonal",
        f"{K}attention.inl.h",
        "for (int64_t k = i; k < j; ++k) scores[j * room + k] = -INFINITY;",
        "for (int64_t k = i; k <= j; ++k) scores[j * room + k] = -INFINITY;",
        "a place takes nothing of itself",
        cases("attention_forward"),
    ),
    Mutant(
        "attention-scale",
        f"{K}attention.inl.h",
        "mul(set1(scale), part(shares + j * positions() + i, n))",
        "part(shares + j * positions() + i, n)",
        "gradients of scores are not scaled",
        cases("attention_backward"),
    ),
    Mutant(
        "small-product-runs",
        "csrc/micro/small_product_body.inl.h",
        "p.b += passed, p.c += passed, p.start += p.start ? passed : 0;",
        "p.b += passed, p.c += passed;",
        "the second run of tiles starts from the first one's start",
        cases("gru_forward"),
    ),
)
