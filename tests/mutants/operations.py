"""Mutants of joined axes, and of activations, products, transposed convolutions and layer norms in a training step."""

from __future__ import annotations

from tests.mutants.kernels import cases
from tests.mutants.mutant import Mutant

SELECTION, SPEC = "tests/models/neurons/test_neuron_set.py", "tests/models/neurons/test_model_spec.py"
CODEC, SUB = "tests/protocol/codec/test_codec_joined.py", "tests/learning/test_sub.py"
GRADIENTS, FUZZ = "tests/learning/test_gradients.py", "tests/learning/test_fuzz.py"
K, L, N = "csrc/kernels/", "edgefl/learning/lowering/", "edgefl/models/neurons/"

MUTANTS = (
    # Joined axes.
    Mutant(
        "joined-repeat",
        f"{N}axes.py",
        "(repeat(part, times), size * times)",
        "(part, size * times)",
        "behind a Flatten a part's indices are taken for neurons",
        SPEC,
    ),
    Mutant(
        "joined-otherwise",
        f"{N}group_inference.py",
        "_sizes(a) == _sizes(b)",
        "len(a.parts) == len(b.parts)",
        "parts of other sizes are joined",
        SPEC,
    ),
    Mutant(
        "joined-settled",
        f"{N}group_inference.py",
        "JoinedAxis(parts) if any(part for part, _ in parts) else None",
        "JoinedAxis(parts)",
        "an axis of no group is restricted",
        SPEC,
    ),
    Mutant(
        "joined-sets-read",
        f"{N}axes.py",
        "    for part, _ in parts_of(axis, 0):",
        "    for part, _ in parts_of(axis, 0)[:1]:",
        "of a joined axis only the first group is known",
        CODEC,
    ),
    Mutant(
        "joined-places",
        f"{N}block_index.py",
        "else ids + first",
        "else ids",
        "the ids of every part begin at 0",
        SELECTION,
    ),
    Mutant(
        "joined-sets-written",
        f"{N}block_index.py",
        "found = ids.parts if",
        "found = ids.parts[:1] if",
        "of a joined block only the first part's ids are sent",
        CODEC,
    ),
    Mutant(
        "joined-whole",
        f"{N}neuron_set.py",
        "if all(ids is None for ids in found):",
        "if any(ids is None for ids in found):",
        "one whole part makes the whole axis active",
        SELECTION,
    ),
    Mutant(
        "sub-transposed",
        "edgefl/models/graph/narrower.py",
        "in_channels=_kept(rows, op.in_channels), out_channels=_kept(cols, op.out_channels))\n"
        "    if isinstance(op, Conv2d | Conv1d):",
        "out_channels=_kept(cols, op.out_channels))\n    if isinstance(op, Conv2d | Conv1d):",
        "a smaller transposed convolution reads all channels",
        SUB,
    ),
    # A step.
    Mutant(
        "needs-layer-norm",
        f"{L}gradient_needs.py",
        "return channels if is_empty(channels) else None",
        "return channels",
        "a LayerNorm gets the signal of active channels alone",
        FUZZ,
    ),
    Mutant(
        "needs-beside",
        f"{L}gradient_needs.py",
        "    Concat: _concat,\n",
        "",
        "the channels that the first of results side by side needs are those of all of them",
        FUZZ,
    ),
    Mutant(
        "cut-transposed",
        f"{L}transposed.py",
        "    if channels is None:",
        "    if True:",
        "a transposed convolution passes on the signal of channels that are cut",
        FUZZ,
    ),
    Mutant(
        "layer-norm-lowest",
        f"{L}layer_norm.py",
        "*sums, 1, None, outs",
        "*sums, 1, None if recorder.needed(below) else NONE, outs",
        "a LayerNorm with nothing trained below it has no gradient",
        FUZZ,
    ),
    Mutant(
        "product-keeps",
        f"{L}recorder.py",
        "((second, first), (first, second)) if other in",
        "((second, first), (first, second)) if other not in",
        "a factor is written over though the other one's gradient reads it",
        GRADIENTS,
    ),
    Mutant(
        "smooth-saved",
        f"{L}activation.py",
        "y if isinstance(node.op, OF_RESULT) else x",
        "x",
        "the slope of a sigmoid is taken of what went into it",
        FUZZ,
    ),
    Mutant(
        "pad-corner",
        f"{L}arrange.py",
        "return top, left",
        "return left, top",
        "rows and columns of padding are exchanged",
        GRADIENTS,
    ),
    # Kernels.
    Mutant(
        "hardswish-slope",
        f"{K}activation.inl.h",
        "fma(x, set1(1.0f / 3), set1(0.5f))",
        "fma(x, set1(1.0f / 6), set1(0.5f))",
        "Hardswish has the slope of a Hardsigmoid's value",
        cases("activation_backward"),
    ),
    Mutant(
        "gelu-far",
        f"{K}activation.inl.h",
        "at_most(max(far, set1(-30.0f)), 30.0f)",
        "far",
        "far from 0 the slope of GELU is no number",
        cases("activation_backward"),
    ),
    Mutant(
        "tanh-far",
        "csrc/math/sigmoid.inl.h",
        "max(x, set1(-8.5f))",
        "max(x, set1(-850.0f))",
        "tanh grows without bound far below 0",
        cases("activation_forward"),
    ),
    Mutant(
        "prelu-sum",
        f"{K}activation.inl.h",
        "if_above(x, zero(), zero(), mul(dy, x))",
        "mul(dy, x)",
        "the gradient of a PReLU's weight counts positive values",
        cases("prelu_backward"),
    ),
    Mutant(
        "put-first",
        f"{K}arrange.inl.h",
        "copy_rows(x, channels * inner, batch, channels * inner, y + first * inner, all_channels * inner);",
        "copy_rows(x, channels * inner, batch, channels * inner, y, all_channels * inner);",
        "every result side by side is written to the first place",
        cases("put_channels"),
    ),
    Mutant(
        "upsample-rows",
        f"{K}arrange.inl.h",
        "load_pair(from + k * width + 2 * w, 2 * some, &a, &b);",
        "load_pair(from + 2 * w, 2 * some, &a, &b);",
        "of the rows that repeat a cell the first is summed again and again",
        cases("upsample_backward"),
    ),
)
