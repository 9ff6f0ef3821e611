"""Mutants of the kernels that no exchange of one token makes: another lane, another channel, another rounding.

operators of C++ (cpp_operators.py) make mistakes of tails, bounds and passes.
"""

from __future__ import annotations

from tests.mutants.mutant import Mutant

LARGE = "tests/kernels/test_large_shapes.py"


def cases(op: str) -> str:
    """Return the tests of an operation's cases on every instruction set."""
    return f"tests/kernels/test_operations.py -k 'matches_reference and native and {op}'"


MUTANTS = (
    Mutant(
        "gather-shift",
        "csrc/kernels/batch.inl.h",
        "float(row[j]) * scale + shift",
        "scale == 1.0f ? float(row[j]) : float(row[j]) * scale + shift",
        "rows are not shifted where scale is 1",
        LARGE,
    ),
    Mutant(
        "batchnorm-forward-abreast",
        "csrc/kernels/norm/statistics.inl.h",
        "x + (b * channels + c) * inner",
        "x + (b * channels + first) * inner",
        "channels side by side all get the statistics of the first",
        LARGE,
    ),
    Mutant(
        "batchnorm-unbiased",
        "csrc/kernels/norm/statistics.inl.h",
        "double(momentum) * unbiased",
        "double(momentum) * variance",
        "the running variance follows the biased one",
        cases("batchnorm_forward"),
    ),
    Mutant(
        "groupnorm-last-stretch",
        "csrc/kernels/norm/statistics.inl.h",
        "at < size",
        "at == 0 || at + stretch <= size",
        "what is left of a group after whole stretches of 4096 floats is not summed",
        LARGE,
    ),
    Mutant(
        "norm-relu-second-word",
        "csrc/kernels/norm/relu.inl.h",
        "products.of[k] = fma(dz[k], d[k], products.of[k]);",
        "products.of[k] = fma(dz[k], d[0], products.of[k]);",
        "every second word is multiplied with the one before it",
        cases("batchnorm_relu_backward"),
    ),
    Mutant(
        "norm-relu-eval-rounding",
        "csrc/kernels/norm/relu_eval.inl.h",
        "fma(weight, mul(sub(x, mean), inv_std), bias)",
        "fma(mul(weight, inv_std), sub(x, mean), bias)",
        "batch norm by running statistics rounds otherwise with a rectifier than alone",
        "tests/kernels/test_norm_relu_eval.py",
    ),
    Mutant(
        "conv-bias-of-groups",
        "csrc/kernels/convolution/correlate_rows.inl.h",
        "c.bias[id_of(c.targets, g.target + m)]",
        "c.bias[m]",
        "every group has the biases of the first",
        cases("conv2d_forward"),
    ),
    Mutant(
        "int8-starts-of-regions",
        "csrc/kernels/int8/regions.inl.h",
        "OFFSET && !regions.by_taps",
        "OFFSET && regions.count == 1",
        "a map of one region takes off the weights of taps that it leaves out",
        "tests/kernels/test_int8.py",
    ),
    Mutant(
        "met-pixels-of-rows",
        "csrc/kernels/convolution/weight_by_channels.inl.h",
        "w.conv.stride_h * w.conv.width",
        "2 * w.conv.width",
        "one tap at a stride of 2 columns is taken to have it along rows, too",
        LARGE,
    ),
    Mutant(
        "linear-spare-lanes",
        "csrc/kernels/linear/pack.inl.h",
        "store(to + last, load_n(row + last, int(width - last)));",
        "for (int64_t n = last; n < width; ++n) to[n] = row[n];",
        "lanes to spare compute with what was left over in packing memory",
        "tests/kernels/test_spare_lanes.py",
    ),
    Mutant(
        "avgpool-divisor",
        "csrc/kernels/pool/window.inl.h",
        "return p.count_include_pad ? least(p.kernel_w, p.width + p.pad_w - in.w0) : in.w_end - in.w_begin;",
        "return least(p.kernel_w, p.width + p.pad_w - in.w0);",
        "padding counts in the divisor where it should not",
        cases("avgpool_forward"),
    ),
    Mutant(
        "split-last-item",
        "csrc/core/split.cc",
        "range(context, first, first + size + (i < larger))",
        "range(context, first, first + size + (i < larger) - 1)",
        "the last item of each block of a loop that is split over threads is left out",
        "tests/kernels/test_threads.py -k 'add or relu_forward'",
    ),
    Mutant(
        "adam-uncorrected",
        "csrc/kernels/adam.inl.h",
        "add(div(sqrt(v), set1(rate.root)), set1(rate.epsilon))",
        "add(sqrt(v), set1(rate.epsilon))",
        "words of the second moment are not corrected for their start",
        cases("adam"),
    ),
    Mutant(
        "sum-squares-tail",
        "csrc/kernels/update.inl.h",
        "lane[k] += value(i) * value(i);",
        "if (i + 1 < last) lane[k] += value(i) * value(i);",
        "the last square is left out",
        cases("sum_squares"),
    ),
    Mutant(
        "dropout-word",
        "csrc/micro/kept.inl.h",
        "store(factors + TILE_BLOCKS + i, keep_from(scale, words.c1, threshold));",
        "store(factors + TILE_BLOCKS + i, keep_from(scale, words.c0, threshold));",
        "a quarter of the values goes by the words of another",
        cases("dropout"),
    ),
    Mutant(
        "lstm-cells",
        "csrc/kernels/recurrent.inl.h",
        "        store(cell_carry + k, mul(dcell, f));",
        "        store(cell_carry + k, mul(dcell, i));",
        "the cell's signal goes back through the input gate",
        cases("lstm_backward"),
    ),
    Mutant(
        "stored-targets",
        "csrc/kernels/convolution/pointwise.inl.h",
        "wide[c.targets.ids[m + k] - start]",
        "wide[c.targets.ids[m + k]]",
        "selected columns are read from where the whole row would lie",
        cases("pointwise_grad_input"),
    ),
)
