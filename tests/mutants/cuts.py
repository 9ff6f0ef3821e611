"""Mistakes in training after a cut: where graphs are cut, what is kept and sent, and which cut a client gets."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CACHED, CUTS = "edgefl/learning/running/cached_prefix.py", "edgefl/models/graph/cuts.py"
METHOD, BUDGET = "edgefl/methods/fedspu_cached.py", "edgefl/methods/budget.py"
OF_CACHED, OF_CUTS, OF_METHOD = (
    "tests/learning/test_cached_prefix.py", "tests/models/graph/test_cuts.py", "tests/methods/test_fedspu_cached.py"
)  # fmt: skip

MUTANTS = (
    Mutant("cut-between-branches", CUTS, "return there & read == {", "return there & read >= {",
           "a graph is cut where two results cross", OF_CUTS),
    Mutant("cut-beyond-dropout", CUTS, "and not is_beyond_dropout and", "and",
           "a dropout stands still with what lies before it", OF_CUTS),
    Mutant("cut-largest", CUTS, "found.values())\n", "found.values())[::-1]\n",
           "cuts are listed from the last", OF_CUTS),
    Mutant("kept-refill", CACHED, "            positions[rows] = np.arange(len(rows), dtype=np.int32)\n",
           "            positions[rows] = rows\n", "steps read other rows of what is kept", OF_CACHED),
    Mutant("kept-targets", CACHED, "        self.near.y[: len(rows)] = self._targets[rows]\n", "",
           "results are trained on with the targets of others", OF_CACHED),
    Mutant("kept-short-pass", CACHED, "np.repeat(rows[-1:], -len(rows) % chunk)", "rows[:0]",
           "the last pass has fewer examples, and its bits depend on the limit", OF_CACHED),
    Mutant("kept-room", CACHED, "return min(rows, (limit - taken) // row_bytes)", "return rows",
           "what is kept exceeds the limit", OF_CACHED),
    Mutant("offer-order", BUDGET, "sorted(set(keeps), reverse=True)", "sorted(set(keeps))",
           "the smallest share is preferred", OF_METHOD),
    Mutant("offer-still-free", BUDGET, "return self.still + self.steps", "return self.steps",
           "running what stands still costs nothing", OF_METHOD),
    Mutant("prefix-of-old", METHOD,
           "            client_state.learner.write(plan.payload[PREFIX])\n", "            pass\n",
           "a client keeps its own first layers", OF_METHOD),
    Mutant("prefix-is-due", METHOD, '        expects={MODEL: ExpectedPayload("planned")},\n', "",
           "a client is to send the first layers back", OF_METHOD),
    Mutant("prefix-is-trained", METHOD, "return replace(options, cut=cut)", "return options",
           "a client trains the first layers, too", OF_METHOD),
)  # fmt: skip
