"""Mutants of dropout, from its stream to the methods, and of pools whose last windows are cut."""

from __future__ import annotations

from tests.mutants.kernels import cases
from tests.mutants.mutant import Mutant

DROPOUT = "tests/learning/test_dropout.py"
NOISE = "tests/learning/test_noise.py"
TRACE = "tests/torch/test_trace.py"
ONNX = "tests/study/export/test_onnx_nodes.py"
K, L, R = "csrc/kernels/", "edgefl/learning/lowering/", "edgefl/learning/running/"

MUTANTS = (
    Mutant(
        "dropout-step",
        f"{L}lower.py",
        "        count_step(recorder)\n",
        "",
        "every step of a fit drops the same values",
        DROPOUT,
    ),
    Mutant(
        "dropout-backward",
        f"{L}dropout.py",
        "dx = output_grads.target(dy)",
        "dx = dy",
        "a signal that another result has, too, is written over",
        DROPOUT,
    ),
    Mutant(
        "dropout-node",
        f"{L}dropout.py",
        "settings = (names.index(node.name), threshold",
        "settings = (0, threshold",
        "all dropouts of a model drop the same places",
        DROPOUT,
    ),
    Mutant(
        "dropout-evaluated",
        f"{L}lower.py",
        'drops = mode in ("train", "gradient")',
        "drops = True",
        "predictions drop values, too",
        DROPOUT,
    ),
    Mutant(
        "dropout-view",
        f"{L}recorder.py",
        "return isinstance(node.op, VIEWS) or (isinstance(node.op, AnyDropout) and not self.drops_at(node))",
        "return isinstance(node.op, VIEWS)",
        "a result that an idle dropout hands on is overwritten while others read it",
        DROPOUT,
    ),
    Mutant(
        "noise-angles",
        f"{L}training_alone.py",
        'recorder.call("uniform", angles, Slot("dropout"), number + ANGLES)',
        'recorder.call("uniform", angles, Slot("dropout"), number)',
        "noise is not normal, because lengths and angles are one number",
        NOISE,
    ),
    Mutant(
        "noise-evaluated",
        f"{R}inference.py",
        "self._workspace.scalars.dropout[:] = 0, 0, start",
        "self._workspace.scalars.dropout[:] = 0, 0, 0",
        "the noise of an evaluation depends on its chunks",
        NOISE,
    ),
    Mutant(
        "scaler-evaluated",
        f"{L}training_alone.py",
        "node.op.factor if recorder.scope.trains else 1.0",
        "node.op.factor",
        "a factor of training acts in predictions, too",
        NOISE,
    ),
    Mutant(
        "dropout-first",
        f"{R}gradient_passes.py",
        "work.scalars.dropout[2] += len(chunks[0])",
        "work.scalars.dropout[2] += 0",
        "what a gradient drops depends on its chunks",
        DROPOUT,
    ),
    Mutant(
        "dropout-key",
        "edgefl/methods/client_state.py",
        "rng.stream(client_state.seed, rng.DROPOUT, client=client_state.client, round=round).key()",
        "rng.stream(client_state.seed, rng.DROPOUT, client=client_state.client).key()",
        "a client drops the same values in every round",
        DROPOUT,
    ),
    Mutant(
        "dropout-passes",
        "edgefl/methods/client_state.py",
        "steps, _ = passes(len(client_state.train), first, batch)",
        "steps, _ = passes(len(client_state.train), 0, batch)",
        "passes taken apart drop the same values",
        DROPOUT,
    ),
    Mutant(
        "dropout-traced",
        "edgefl/torch/fx_front_end.py",
        "return _converted_in_mode(module, input_shape, True)",
        "return _converted_in_mode(module, input_shape, False)",
        "F.dropout is lost",
        TRACE,
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
        "dropout-cut",
        "csrc/micro/kept.inl.h",
        "least(last, start + TILE_VALUES)",
        "start + TILE_VALUES",
        "values behind the channels that are asked for are written",
        cases("dropout"),
    ),
    Mutant(
        "pool-ceil-start",
        "csrc/core/geometry.h",
        "(count - 1) * stride >= size + pad",
        "(count - 1) * stride >= size + 2 * pad",
        "a last window may begin in the padding behind the plane",
        cases("avgpool_forward"),
    ),
    Mutant(
        "pool-halving-cut",
        f"{K}pool/max.inl.h",
        "if (p.ceil_mode && (p.height % rows || p.width % 2)) return false;",
        "if (p.ceil_mode && p.height % rows) return false;",
        "pairs along a row are read beyond its end",
        cases("maxpool_forward"),
    ),
    Mutant(
        "adaptive-end",
        f"{K}pool/adaptive.inl.h",
        "((i + 1) * size + parts - 1) / parts",
        "(i + 1) * size / parts",
        "windows that do not divide a plane share no cell",
        cases("adaptive_avgpool_forward"),
    ),
    Mutant(
        "onnx-cut-average",
        "edgefl/study/export/onnx_pools.py",
        "    if counts and any(over):\n",
        "    if counts and any(before) and not any(over):\n",
        "the averages of cut windows count what is behind the padding",
        ONNX,
    ),
    Mutant(
        "json-later",
        "edgefl/models/graph/json.py",
        "if name not in defaults or value != defaults[name]",
        "",
        "graphs without ceil_mode are other texts than before",
        DROPOUT,
    ),
)
