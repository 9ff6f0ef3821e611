"""Mutants of frozen weights in fewer bits, and of a last layer that is divided by places."""

from __future__ import annotations

from tests.mutants.kernels import cases
from tests.mutants.mutant import Mutant

ARRAYS, STEPS = "tests/models/graph/test_quantized_arrays.py", "tests/learning/test_quantized.py"
PLACES = "tests/learning/test_place_losses.py -k chunks"
K, L, M = "csrc/kernels/", "edgefl/learning/lowering/", "edgefl/models/graph/"

MUTANTS = (
    Mutant(
        "stored-row-scale",
        f"{K}stored_weight.inl.h",
        "to[i] *= row_scale[row]",
        "to[i] *= row_scale[0]",
        "every row has the scale of the first row",
        cases("widen_weight"),
    ),
    Mutant(
        "stored-column-scale",
        f"{K}stored_weight.inl.h",
        "col_scale[first + i]",
        "col_scale[i]",
        "a run of columns has the scales of the first columns",
        cases("pointwise_forward"),
    ),
    Mutant(
        "stored-targets",
        f"{K}convolution/pointwise.inl.h",
        "wide[c.targets.ids[m + k] - start]",
        "wide[c.targets.ids[m + k]]",
        "selected columns are read from where the whole row would lie",
        cases("pointwise_grad_input"),
    ),
    Mutant(
        "stored-no-source",
        f"{K}convolution/pointwise.inl.h",
        "c.bias ? c.bias[channel] : 0",
        "0",
        "outputs without an input have no bias",
        cases("pointwise_forward"),
    ),
    Mutant(
        "stored-embedding-block",
        f"{K}stored_rows.inl.h",
        "y[(f + i) * length + k]",
        "y[i * length + k]",
        "all features of a table beyond the first 256 overwrite these",
        cases("embedding_stored"),
    ),
    Mutant(
        "quantized-scale-bits",
        f"{M}quantized_array.py",
        "np.ldexp(np.rint(mantissa * 2**16), exponent - 16)",
        "np.ldexp(mantissa, exponent)",
        "a code times its scale is rounded, so quantizing again changes scales",
        ARRAYS,
    ),
    Mutant(
        "quantized-turned",
        f"{M}quantization.py",
        'int(precision == "int8" and name in turned)',
        "0",
        "a transposed weight has a scale for each input channel",
        STEPS,
    ),
    Mutant(
        "quantized-written",
        "edgefl/learning/running/weight_arrays.py",
        "whole is not self._params[name] and not np.array_equal(np.asarray(whole), self[name])",
        "False",
        "other values of a quantized parameter are ignored without a word",
        STEPS,
    ),
    Mutant(
        "quantized-account",
        "edgefl/learning/memory/exact.py",
        "+ held.value_bytes + narrow",
        "+ held.value_bytes",
        "the account has no codes",
        STEPS,
    ),
    Mutant(
        "quantized-message",
        "edgefl/protocol/wire/model_message.py",
        "source.seek(count, FROM_HERE)",
        "source.seek(0, FROM_HERE)",
        "codes that nobody wants are read as the next parameter's",
        ARRAYS,
    ),
    Mutant(
        "place-loss-from",
        f"{K}place_loss.inl.h",
        "int64_t(ids[first + example]) * length + from + place",
        "int64_t(ids[first + example]) * length + place",
        "a part of the places has the labels of the first places",
        cases("place_cross_entropy"),
    ),
    Mutant(
        "head-place",
        f"{L}chunked_head.py",
        "at.first * self._places + at.place",
        "at.first * self._places",
        "every chunk of an example takes its first places",
        PLACES,
    ),
    Mutant(
        "head-trained-places",
        f"{L}chunked_head.py",
        "least = least if is_trained else",
        "least = 1 if is_trained else",
        "a trained last layer takes one place at a time",
        PLACES,
    ),
)
