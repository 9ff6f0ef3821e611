"""Mutants of the learner that torch computes."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

LEARNER = "tests/torch/test_torch_learner.py"
N = "edgefl/torch/"

MUTANTS = (
    Mutant(
        "torch-frozen-columns",
        f"{N}optimizer_steps.py",
        "self.rows if self.cols is None else (self.rows[:, None], self.cols)",
        "self.rows",
        "of a block of rows and columns whole rows are written",
        LEARNER,
    ),
    Mutant(
        "torch-pull-forgotten",
        f"{N}optimizer_steps.py",
        "self._strength * (moved - self._centre[name])",
        "self._strength * moved",
        "the proximal term pulls towards 0",
        LEARNER,
    ),
    Mutant(
        "torch-clip-each",
        f"{N}optimizer_steps.py",
        "_scale(found.values(), self._clip)",
        "_scale(list(found.values())[:1], self._clip)",
        "the norm that clips is the first block's",
        LEARNER,
    ),
    Mutant(
        "torch-mask-left",
        f"{N}masked_parameters.py",
        "self.restriction.clear(name, array)",
        "self.restriction.clear(name, array.copy())",
        "what a mask leaves out stays as it was",
        LEARNER,
    ),
    Mutant(
        "torch-mask-forgotten",
        f"{N}masked_parameters.py",
        "ids.get(name), self._place)",
        "None, self._place)",
        "coordinates outside a mask are trained",
        LEARNER,
    ),
    Mutant(
        "torch-strongest-inside",
        f"{N}module_gradients.py",
        "np.flatnonzero(~outside.bits[name])",
        "np.flatnonzero(outside.bits[name])",
        "coordinates that are there are grown",
        LEARNER,
    ),
    Mutant(
        "torch-statistics-moved",
        f"{N}parameter_arrays.py",
        "        buffer.copy_(value)",
        "        pass",
        "a gradient moves running statistics",
        LEARNER,
    ),
    Mutant(
        "torch-statistics-freeze",
        f"{N}masked_parameters.py",
        "now[chosen] = before[name][chosen]",
        "now[chosen] = now[chosen]",
        "statistics of frozen channels follow the batches where they should not",
        LEARNER,
    ),
    Mutant(
        "torch-dropout-step",
        f"{N}dropout.py",
        "self._move(1, 1)",
        "self._move(1, 0)",
        "every step drops what the first drops",
        LEARNER,
    ),
    Mutant(
        "torch-dropout-examples",
        f"{N}dropout.py",
        "self._move(2, count)",
        "self._move(2, 0)",
        "every chunk drops what the first drops",
        LEARNER,
    ),
    Mutant(
        "torch-dropout-number",
        f"{N}dropout.py",
        "names.index(node) if node in names else number",
        "number",
        "a layer drops what another would",
        LEARNER,
    ),
    Mutant(
        "torch-cut-exact",
        f"{N}gradient_cut.py",
        "    _held(rows, 1, output)",
        "    pass",
        "the signal passes through frozen neurons although it is to be cut",
        LEARNER,
    ),
    Mutant(
        "torch-cut-states",
        f"{N}sequence_modules.py",
        "found.append(hold(y))",
        "found.append(y)",
        "recurrent states pass signals on although they are to be cut",
        LEARNER,
    ),
    Mutant(
        "torch-head-not-shared",
        f"{N}module_parts.py",
        "twin = deepcopy(module, shared)",
        "twin = deepcopy(module)",
        "the body under another head is a copy",
        LEARNER,
    ),
    Mutant(
        "torch-module-touched",
        f"{N}torch_learner.py",
        "own = deepcopy(module) if module is not None",
        "own = module if module is not None",
        "a user's module is trained itself",
        LEARNER,
    ),
    Mutant(
        "torch-smallest-logit",
        f"{N}objective.py",
        "_classes_first(loss, outputs).argmax(1) == targets",
        "_classes_first(loss, outputs).argmin(1) == targets",
        "the smallest logit decides",
        LEARNER,
    ),
)
