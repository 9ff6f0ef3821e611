"""Mutants of steps that compute parts again or pass in parts, and of weights that are kept transposed."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

L, R = "edgefl/learning/lowering/", "edgefl/learning/running/"
BITS, LIMIT = "tests/learning/test_recompute.py", "tests/learning/test_limit.py"
PARTS = "tests/learning/test_micro_batches.py"
TURNED = "tests/learning/test_turned_weight.py"

MUTANTS = (
    Mutant(
        "recompute-statistics",
        f"{L}recorder.py",
        "if self.repeats:",
        "if False:",
        "running statistics change again where a segment is computed again",
        BITS,
    ),
    Mutant(
        "recompute-overwrites",
        f"{L}recorder.py",
        "self._saved.update(self.root(name) for name in scope.kept)",
        "self._saved.update(())",
        "a node writes over a result from which its segment is computed again",
        BITS,
    ),
    Mutant(
        "recompute-all",
        f"{L}recompute.py",
        "is_wanted = not written or any(",
        "is_wanted = True or any(",
        "calls whose results nothing reads are made again",
        BITS,
    ),
    Mutant(
        "recompute-drops-last-read",
        f"{L}recompute.py",
        "last.get(name, -1) > number",
        "last.get(name, -1) > number + 1",
        "a result that the node behind a checkpoint alone reads is not kept",
        BITS,
    ),
    Mutant(
        "recompute-late",
        f"{L}backward.py",
        "            replays.before(node)\n        dy, found = output_grads.take(node.name), Gradients()",
        "            pass\n        dy, found = output_grads.take(node.name), Gradients()",
        "nothing is computed again, so a plan saves nothing",
        BITS,
    ),
    Mutant(
        "recompute-without-room",
        f"{R}memory_account.py",
        "return limit - least - held - scratch",
        "return limit - least - held",
        "the packing memory is left out of the room for an arena",
        f"{BITS} {LIMIT}",
    ),
    Mutant(
        "plan-first-that-fits",
        f"{L}plan_search.py",
        "key=lambda each: (each.work, each.bytes))",
        "key=lambda each: -each.work)",
        "the plan with the most work is tried first",
        BITS,
    ),
    Mutant(
        "parts-alike",
        f"{L}micro_batches.py",
        "self.size / self.whole",
        "1.0",
        "the gradient of a part counts as much as the gradient of a whole batch",
        PARTS,
    ),
    Mutant(
        "parts-first-rows",
        f"{L}micro_batches.py",
        "IndexPart(self.first, self.size)",
        "IndexPart(0, self.size)",
        "every part reads the first examples of the batch",
        PARTS,
    ),
    Mutant(
        "parts-labels",
        f"{L}micro_batches.py",
        "first + self.first, *rest",
        "first, *rest",
        "every part reads the labels of places of the first examples",
        PARTS,
    ),
    Mutant(
        "parts-last-alone",
        f"{L}lower.py",
        "sums.completed(passes) if part.first else passes",
        "passes",
        "the step takes the gradient of the last part alone",
        PARTS,
    ),
    Mutant(
        "turned-trained",
        f"{L}turned_weight.py",
        "and each.sources[0] in graph.frozen",
        "",
        "a trained weight that is kept transposed is not turned, and gets no gradient of its layout",
        TURNED,
    ),
    Mutant(
        "turned-bias",
        f"{L}turned_weight.py",
        "    if bias is not None:",
        "    if False:",
        "the bias of a weight that is kept transposed is left out",
        TURNED,
    ),
)
