"""Mutants of transformers: attention whose heads share keys, RMSNorm and rotary positions, from kernels to neurons."""

from __future__ import annotations

from tests.mutants.kernels import cases
from tests.mutants.mutant import Mutant

GRADIENTS = "tests/learning/test_gradients.py -k transformer"
OPERATIONS = "edgefl/models/graph/operations/transformer.py"
K, L = "csrc/kernels/", "edgefl/learning/lowering/"
HEADS = "edgefl/models/neurons/attention_heads.py"
SPEC = "tests/models/neurons/test_attention_heads.py"

MUTANTS = (
    Mutant(
        "sdpa-window",
        f"{K}sdpa.inl.h",
        "query - key >= shape.window",
        "query - key > shape.window",
        "a query meets a key before its window",
        cases("sdpa"),
    ),
    Mutant(
        "sdpa-shared-values",
        f"{K}sdpa.inl.h",
        "qkv + a.shared_at(image, 2, head / a.group)",
        "qkv + a.shared_at(image, 2, head % shape->kv_heads)",
        "heads take the values of another run",
        cases("sdpa_forward"),
    ),
    Mutant(
        "sdpa-bias-of-heads",
        f"{K}sdpa.inl.h",
        "head / (shape.heads / shape.masks) * places() * places()",
        "head % shape.masks * places() * places()",
        "biases alternate among heads",
        cases("sdpa"),
    ),
    Mutant(
        "sdpa-sums",
        f"{K}sdpa.inl.h",
        "tops[k] + std::log(totals[k])",
        "tops[k]",
        "the backward pass gets the largest score for the logarithm of the sum",
        cases("sdpa_forward"),
    ),
    Mutant(
        "sdpa-dropout-of-heads",
        f"{K}sdpa.inl.h",
        "(head * a.places() + j) * a.places() + first",
        "j * a.places() + first",
        "all heads drop the same shares",
        cases("sdpa"),
    ),
    Mutant(
        "sdpa-bias-gradient",
        f"{K}sdpa.inl.h",
        "zero_floats(dbias, shape->masks * a.places() * a.places());",
        "",
        "the gradient of the bias is added to what was there",
        cases("sdpa_backward"),
    ),
    Mutant(
        "rmsnorm-offset",
        f"{K}rms_norm.inl.h",
        "mul(gain, mul(at.read(x + from + c * inner, u), scale[u]))",
        "mul(set1(weight[c]), mul(at.read(x + from + c * inner, u), scale[u]))",
        "the offset of the weight is left out",
        cases("rmsnorm_forward"),
    ),
    Mutant(
        "rmsnorm-share",
        f"{K}rms_norm.inl.h",
        "for (int u = 0; u < U; ++u) sum[u] = mul(sum[u], share);",
        "for (int u = 0; u < U; ++u) sum[u] = add(sum[u], share);",
        "the gradient lacks the mean over the channels",
        cases("rmsnorm_backward"),
    ),
    Mutant(
        "rmsnorm-ids",
        f"{K}rms_norm.inl.h",
        "(run * width + id_of(outs, j)) * inner",
        "(run * width + j) * inner",
        "the gradient of the weight is of the first channels",
        cases("rmsnorm_backward"),
    ),
    Mutant(
        "rotary-back",
        f"{K}rotary.inl.h",
        "back ? sub(two, other) : add(two, other)",
        "add(two, other)",
        "the second half is not rotated back",
        cases("rotary"),
    ),
    Mutant(
        "rotary-tables",
        f"{K}rotary.inl.h",
        "part(by[back ? 1 : 3] + i, lanes)",
        "part(by[3] + i, lanes)",
        "the second half is rotated back by its own sine",
        cases("rotary"),
    ),
    Mutant(
        "rotary-gradient",
        f"{L}rotary.py",
        "_rotate(recorder, node, dy, True, dx)",
        "_rotate(recorder, node, dy, False, dx)",
        "the gradient is rotated on",
        GRADIENTS,
    ),
    Mutant(
        "rmsnorm-gradient-rows",
        f"{L}rms_norm.py",
        "rows = joined_rows(node, recorder.scope.active.blocks)",
        "rows = None",
        "the weight of a norm is trained at frozen neurons",
        GRADIENTS,
    ),
    Mutant(
        "sdpa-causal-products",
        OPERATIONS,
        "pairs = positions * (positions + 1) // 2 if self.causal else positions**2",
        "pairs = positions**2",
        "keys after a query are counted",
        SPEC,
    ),
    Mutant(
        "sdpa-heads-kept",
        OPERATIONS,
        "num_heads=self.num_heads // self.kv_heads * kept",
        "num_heads=kept",
        "a head of keys keeps one head of queries",
        SPEC,
    ),
    Mutant(
        "rows-of-queries",
        HEADS,
        "rows = (op.shared, op.head_dim, op.head_dim)",
        "rows = (op.head_dim, op.head_dim, op.head_dim)",
        "a neuron has one head of queries",
        SPEC,
    ),
    Mutant(
        "heads-through-norms",
        HEADS,
        "size = op.num_features if isinstance(op, RMSNorm) else op.head_dim if isinstance(op, Rotary) else 0",
        "size = op.head_dim if isinstance(op, Rotary) else 0",
        "no neurons are found behind a norm of heads",
        SPEC,
    ),
)
