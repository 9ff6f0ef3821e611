"""Mutants of what a learner is made of: neurons, the axes of a model, its blocks, what needs a gradient, the steps."""

from __future__ import annotations

from bench.mutants.mutant import Mutant

SELECTION, SPEC = "tests/neurons/test_selection.py", "tests/neurons/test_spec.py"
UPDATE = "tests/neurons/test_update.py"
FIT, LEARNER = "tests/learners/test_fit.py", "tests/learners/test_graph_learner.py"
GRADIENTS, LAYOUT = "tests/learners/test_gradients.py", "tests/learners/test_layout.py"

MUTANTS = (
    # Neurons.
    Mutant(
        "n-act-rounding",
        "edgefl/neurons/selection.py",
        "math.floor(n * keep + 1e-9)",
        "math.floor(n * keep)",
        "29 % of 100 neurons are 28",
        SELECTION,
    ),
    Mutant(
        "draw-full-keys",
        "edgefl/neurons/selection.py",
        "key if count < size else None",
        "key",
        "a whole group has a key too",
        SELECTION,
    ),
    Mutant(
        "hash-sizes",
        "edgefl/neurons/selection.py",
        'f"{group} {self.sizes[group]} {len(ids)}\\n"',
        'f"{group} {len(ids)}\\n"',
        "neurons of a smaller group have the hash of those of a larger one",
        SELECTION,
    ),
    Mutant(
        "ids-unsorted",
        "edgefl/neurons/selection.py",
        "(given[1:] <= given[:-1]).any()",
        "(given[1:] < given[:-1]).any()",
        "a neuron may stand in a set twice",
        SELECTION,
    ),
    # Axes.
    Mutant(
        "join-freed",
        "edgefl/neurons/spec.py",
        "        if second in self._free:\n            self._free.add(first)\n",
        "",
        "a group that is summed with an unrestricted one stays restricted",
        SPEC,
    ),
    Mutant(
        "join-repeats",
        "edgefl/neurons/spec.py",
        "a is None or b is None or a.repeat != b.repeat",
        "a is None or b is None",
        "results whose channels belong to neurons differently share a group",
        SPEC,
    ),
    Mutant(
        "flatten-repeat",
        "edgefl/neurons/spec.py",
        "AxisSpec(axis.group, axis.repeat * times)",
        "AxisSpec(axis.group, times)",
        "Flatten forgets the multiplier of a depthwise convolution",
        SPEC,
    ),
    # Updates.
    Mutant(
        "put-half",
        "edgefl/neurons/gather.py",
        "        targets.append((target, block))",
        "        _scatter(target, block, ops)",
        "blocks before one that does not fit are written",
        UPDATE,
    ),
    Mutant(
        "same-bits",
        "edgefl/neurons/update.py",
        "np.array_equal(a.view(bits), b.view(bits))",
        "np.array_equal(a, b)",
        "NaN differs from itself, and 0.0 equals -0.0",
        UPDATE,
    ),
    Mutant(
        "ids-of-all",
        "edgefl/neurons/index.py",
        "0 < self.neurons.size < self.size",
        "0 < self.neurons.size <= self.size",
        "all neurons of a group have a second form",
        UPDATE,
    ),
    # What needs a gradient.
    Mutant(
        "layout-batch",
        "edgefl/learners/lowering/layout.py",
        "lanes == 1 or batch % lanes",
        "lanes == 1",
        "images lie side by side in words that they do not fill",
        LAYOUT,
    ),
    Mutant(
        "layout-cost",
        "edgefl/learners/lowering/layout.py",
        "] -= OTHER_TURNS",
        "] += OTHER_TURNS",
        "the more is turned, the better",
        LAYOUT,
    ),
    Mutant(
        "layout-signal",
        "edgefl/learners/lowering/signals.py",
        "self.recorder.values[name].lanes)",
        "signal.lanes)",
        "a gradient does not lie as its result",
        LAYOUT,
    ),
    Mutant(
        "saved-inputs",
        "edgefl/learners/lowering/lower.py",
        "min(copied, whole, key",
        "max(copied, whole, key",
        "a frozen step takes the larger of its two arenas",
        "tests/learners/test_saved_inputs.py",
    ),
    Mutant(
        "needs-union",
        "edgefl/learners/lowering/channels.py",
        "_simplest(np.union1d(a, b), size)",
        "a",
        "where two results meet, the channels that the second needs get no gradient",
        GRADIENTS,
    ),
    Mutant(
        "needs-whole-groups",
        "edgefl/learners/lowering/needs.py",
        "members(owners(channels, per_group, node.op.num_groups), per_group)",
        "channels",
        "a GroupNorm gets the signal of active channels alone",
        GRADIENTS,
    ),
    Mutant(
        "needs-flatten",
        "edgefl/learners/lowering/needs.py",
        "members(below[0], after // before)",
        "below[0]",
        "behind a Flatten the signal reaches the first features, not those of the active channels",
        GRADIENTS,
    ),
    Mutant(
        "adopt-neurons",
        "edgefl/learners/lowering/active.py",
        "                ours[:] = theirs\n",
        "                pass\n",
        "a program that is there trains the neurons it was first made for",
        "tests/learners/test_rebinding.py",
    ),
    Mutant(
        "shared-signal",
        "edgefl/learners/lowering/signals.py",
        "        self._holders[signal.buffer] += 1\n"
        "        for name in names[:-1]:\n            self.give(name, signal)\n"
        "        self._holders[signal.buffer] -= 1\n",
        "        for name in names[:-1]:\n            self.give(name, signal)\n",
        "a sum of signals is written over one that is still to be passed on",
        GRADIENTS,
    ),
    # Steps.
    Mutant(
        "freeze-layers",
        "edgefl/learners/running/statistics.py",
        "None if trainable is None or layer_of(name) in trainable else NONE",
        "None",
        "with names of layers the running statistics of the others follow the batches, though frozen",
        FIT,
    ),
    Mutant(
        "velocity-zero",
        "edgefl/learners/running/workspace.py",
        "values[:] = 0",
        "pass",
        "a fit goes on with the velocities of the one before",
        FIT,
    ),
    Mutant(
        "clip-total",
        "edgefl/learners/lowering/updates.py",
        'recorder.call("fill_zero", Slot("total_bits"))',
        "pass",
        "the norm that is clipped grows from step to step",
        FIT,
    ),
    Mutant(
        "gradient-share",
        "edgefl/learners/running/graph_learner.py",
        "session.programs[len(part)], len(part) / examples",
        "session.programs[len(part)], 1.0",
        "the gradients of chunks are added without their weights",
        f"{LEARNER} tests/algorithms/test_pflego.py",
    ),
    Mutant(
        "gradient-statistics",
        "edgefl/learners/running/statistics.py",
        "params[name][_at(channels[name])] = value",
        "pass",
        "running statistics follow a gradient's batch",
        GRADIENTS,
    ),
    Mutant(
        "index-below-zero",
        "edgefl/learners/running/inputs.py",
        "index.min() < 0 or index.max() >= rows",
        "index.max() >= rows",
        "a negative index is read",
        LEARNER,
    ),
    Mutant(
        "label-beyond",
        "edgefl/learners/running/inputs.py",
        "samples.y.max() >= classes",
        "samples.y.max() > classes",
        "a label one beyond the classes is read",
        LEARNER,
    ),
    Mutant(
        "rebinding-data",
        "edgefl/learners/running/workspace.py",
        "        if bound.samples is session.samples:\n            return\n",
        "        if bound.samples is not None:\n            return\n",
        "a program that is there reads the data it was first made for",
        "tests/learners/test_rebinding.py",
    ),
)
