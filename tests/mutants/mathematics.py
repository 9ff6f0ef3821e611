"""Mutants of formulas: another divisor, another factor or another state, which looks as right as the right one.

An operator swaps or drops what stands there. These bring in a quantity that stands elsewhere.
"""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "quantized-scale-bits",
        "edgefl/models/graph/quantized_array.py",
        "np.ldexp(np.rint(mantissa * 2**16), exponent - 16)",
        "np.ldexp(mantissa, exponent)",
        "a code times its scale is rounded, so quantizing again changes scales",
        "tests/models/graph/test_quantized_arrays.py",
    ),
    Mutant(
        "int8-largest",
        "edgefl/protocol/codec/values.py",
        "np.where(largest > 0, 127, 0)",
        "np.where(largest > 0, reach, 0)",
        "values of 8 bits have other forms with a larger scale",
        "tests/protocol/codec/test_codec_values.py",
    ),
    Mutant(
        "reference-reset",
        "edgefl/kernels/reference/recurrent.py",
        "dr = da * hidden[step] * r * (1 - r)",
        "dr = signal * hidden[step] * r * (1 - r)",
        "the reset gate's gradient forgets the slope of n",
        "tests/kernels/test_reference.py",
    ),
    Mutant(
        "states-before",
        "edgefl/learning/lowering/recurrent.py",
        'gradients |= _weight(recorder, node, "weight_hh_l0", before, units, dhidden)',
        'gradients |= _weight(recorder, node, "weight_hh_l0", before, units, dinput)',
        "the states' weight of a GRU has the gradient of the input's",
        "tests/learning/test_gradients.py",
    ),
    Mutant(
        "standing-turned",
        "edgefl/learning/lowering/parameter.py",
        "sums.view(1, channels, positions), block.values.view(1, positions, channels)",
        "sums.view(1, positions, channels), block.values.view(1, channels, positions)",
        "the gradient of positions is not turned back",
        "tests/learning/test_gradients.py",
    ),
    Mutant(
        "gates-of-a-unit",
        "edgefl/models/neurons/parameter_axes.py",
        "return JoinedAxis(((own, size),) * gates)",
        "return AxisSpec(own.group, own.repeat * gates)",
        "a hidden unit's gates are taken to lie side by side",
        "tests/models/neurons/test_model_spec.py",
    ),
    Mutant(
        "pool-rectified",
        "edgefl/torch/block_autograd.py",
        "dy = dy * pool_kernels.unpacked(bits, dy.shape)",
        "dy = dy + 0",
        "a second gradient passes where ReLU gave 0",
        "tests/torch/test_convert.py",
    ),
    Mutant(
        "torch-clip-each",
        "edgefl/torch/optimizer_steps.py",
        "_scale(found.values(), self._clip)",
        "_scale(list(found.values())[:1], self._clip)",
        "the norm that clips is the first block's",
        "tests/torch/test_torch_learner.py",
    ),
    Mutant(
        "feddc-decayed-rate",
        "edgefl/methods/feddc.py",
        "fit.steps * self.lr",
        "fit.steps * self.rate(plan.round)",
        "FedDC estimates gradients with a rate that decays",
        "tests/methods/test_drift.py",
    ),
    Mutant(
        "feddyn-all-clients",
        "edgefl/methods/feddyn.py",
        "self.alpha / task.clients * moved",
        "self.alpha / count * moved",
        "FedDyn's h is the mean over the clients of the round",
        "tests/methods/test_drift.py",
    ),
    Mutant(
        "fedrecon-mean",
        "edgefl/methods/fedrecon.py",
        "replies.total[name] / sum(replies.weights)",
        "replies.total[name] / len(replies.weights)",
        "gradients weighted by examples are divided by clients",
        "tests/methods/test_personal_heads.py tests/methods/test_pflego.py",
    ),
    Mutant(
        "work-signal",
        "edgefl/learning/lowering/product_flops.py",
        "_positions(dy) * kernel * int(pairs)",
        "_positions(dy) * kernel * dy.shape[1] * dx.shape[1]",
        "signals of frozen channels and other groups are counted",
        "tests/learning/test_product_flops.py",
    ),
    Mutant(
        "saved-inputs",
        "edgefl/learning/lowering/lower.py",
        "return _smaller(copied, whole)",
        "return max(copied, whole, key=lambda schedule: schedule.arena_bytes)",
        "a frozen step takes the larger of its two arenas",
        "tests/learning/test_saved_inputs.py",
    ),
)
