"""Mutants of masks that are drawn, pruned, grown, kept and averaged over: FedSpa, Sub-FedAvg and Ditto."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

DENSITY, PRUNING = "tests/models/neurons/test_density.py", "tests/models/neurons/test_mask_pruning.py"
FEDSPA, SUBFEDAVG, DITTO = (f"tests/methods/test_{name}.py" for name in ("fedspa", "subfedavg", "ditto"))
SEARCH = "tests/methods/test_mask_search.py"
A, N, L = "edgefl/methods/", "edgefl/models/neurons/", "edgefl/learning/"
PRODUCTS, SPARSE = "tests/learning/test_product_flops.py", "tests/learning/test_sparse.py"

MUTANTS = (
    # Masks.
    Mutant(
        "ranked-ties", f"{N}top_k.py", "equal[: count - ", "equal[-count + ", "of equal weights the last go", PRUNING
    ),
    Mutant("ranked-nan", f"{N}top_k.py", "= np.inf", "= 0.0", "what is no number is pruned first", PRUNING),
    Mutant(
        "erk-top", f"{N}density.py", "raw[name] == top", "raw[name] > 0", "all layers become whole at once", DENSITY
    ),
    Mutant(
        "erk-budget",
        f"{N}density.py",
        "density * thin - (1 - density)",
        "density * thin - density",
        "whole layers are paid for at another price",
        DENSITY,
    ),
    Mutant(
        "counts-corrected",
        f"{N}density.py",
        "return _corrected(found, sizes, round(density * sum(sizes.values())))",
        "return found",
        "rounding changes the number of all ones",
        DENSITY,
    ),
    Mutant(
        "anneal-end", f"{N}prune_and_grow.py", "(steps - 1)))", "steps))", "the last round moves masks, too", PRUNING
    ),
    Mutant("prune-rounding", f"{N}prune_and_grow.py", " - 1e-9", "", "3.0000000000000004 weights are four", PRUNING),
    Mutant(
        "random-growth-round",
        f"{N}prune_and_grow.py",
        "client, round, number)",
        "client, 1, number)",
        "every round grows at random where the last one did",
        PRUNING,
    ),
    Mutant(
        "prune-room",
        f"{N}prune_and_grow.py",
        "others if exclude_just_pruned else len(positions)",
        "len(positions)",
        "more leave than could enter in their place",
        PRUNING,
    ),
    # What is executed, and schedules that wait.
    Mutant(
        "work-signal",
        f"{L}lowering/product_flops.py",
        "_positions(dy) * kernel * int(pairs)",
        "_positions(dy) * kernel * dy.shape[1] * dx.shape[1]",
        "signals of frozen channels and other groups are counted",
        PRODUCTS,
    ),
    Mutant(
        "work-search",
        f"{L}running/operation_meter.py",
        "self.search += flops(schedule)",
        "self.training += flops(schedule)",
        "the search for a mask counts as training",
        PRODUCTS,
    ),
    Mutant(
        "work-unknown",
        f"{L}lowering/product_flops.py",
        "if call.op not in WITHOUT:",
        "if False:",
        "a product that nobody has counted counts as none",
        PRODUCTS,
    ),
    Mutant(
        "layouts-masks",
        f"{L}running/session_cache.py",
        "self._sessions, self.masks = self._layouts.enter(layout) or (OrderedDict(), masks)",
        "self._sessions, self.masks = (self._layouts.enter(layout) or (OrderedDict(), masks))[0], masks",
        "schedules that are taken up again read the bits of an old mask",
        SPARSE,
    ),
    # FedSpa.
    Mutant(
        "fedspa-share",
        f"{A}fedspa.py",
        "(w - total[name] / count)",
        "(w - total[name] / np.maximum(tally.mean.weight[name], 1))",
        "a coordinate of one client moves as far as one of all",
        FEDSPA,
    ),
    Mutant(
        "fedspa-candidates",
        f"{A}mask_search.py",
        "old if self.exclude_just_pruned else pruned.kept",
        "old",
        "what was just pruned cannot grow",
        FEDSPA,
    ),
    Mutant(
        "fedspa-batch",
        f"{A}fedspa.py",
        "rng.MASK_BATCH, client_state.client, round)",
        "rng.DATA, client_state.client, round)",
        "the mask grows by the first batch of training",
        FEDSPA,
    ),
    Mutant(
        "fedspa-lost",
        f"{A}fedspa.py",
        "None if client in task.lost else mask",
        "mask",
        "a device that lost its mask is told of its hash",
        FEDSPA,
    ),
    Mutant(
        "fedspa-size",
        f"{A}fedspa.py",
        "tuple(mask.bits), counts=ones)",
        "tuple(mask.bits))",
        "a client's mask may grow denser",
        FEDSPA,
    ),
    Mutant(
        "fedspa-last-round",
        f"{A}fedspa.py",
        'if settings.get("alpha") and mask.bits:',
        "if settings and mask.bits:",
        "a mask is sent that has not moved",
        FEDSPA,
    ),
    Mutant(
        "snip-strength",
        f"{A}mask_search.py",
        "magnitudes(weights[name] * slopes[name])",
        "magnitudes(slopes[name])",
        "SNIP keeps the largest gradients, whatever the weights",
        SEARCH,
    ),
    Mutant(
        "snip-size",
        f"{A}fedspa.py",
        'ExpectedPayload("chosen", counts={**sizes, **self.ones(task.spec)})',
        'ExpectedPayload("chosen")',
        "a client's first mask may be denser than was agreed",
        SEARCH,
    ),
    Mutant(
        "fedspa-free",
        f"{A}mask_store.py",
        "learner.restrict(None)",
        "pass",
        "the next model in the learner lacks coordinates",
        FEDSPA,
    ),
    Mutant(
        "fedspa-before",
        f"{A}mask_store.py",
        "{BEFORE: packed(before)}",
        "{}",
        "a client whose reply was late cannot read the next plan",
        FEDSPA,
    ),
    # Sub-FedAvg and Ditto.
    Mutant(
        "subfedavg-gain",
        f"{A}subfedavg.py",
        "accumulator.masks[reply.client] = mask_of(left)",
        "accumulator.masks[reply.client] = reply.masks.get(MASK, WHOLE)",
        "a mask may gain what it had lost",
        SUBFEDAVG,
    ),
    Mutant(
        "subfedavg-pruned-values",
        f"{A}subfedavg.py",
        "left = at_mask(reply.payload[MODEL], reply.masks.get(MASK, WHOLE))",
        "left = reply.payload[MODEL]",
        "zeros of what was pruned are averaged",
        SUBFEDAVG,
    ),
    Mutant(
        "subfedavg-rejected",
        f"{A}subfedavg.py",
        "        client_state.learner.write(trained)\n",
        "",
        "a pruning that was not accepted is sent",
        SUBFEDAVG,
    ),
    Mutant(
        "ditto-draw",
        f"{A}ditto.py",
        "(plan.round), self._drawn(client_state, plan)",
        "(plan.round), FitOptions()",
        "the personal model is not drawn to the global one",
        DITTO,
    ),
    Mutant(
        "ditto-apart",
        f"{A}ditto.py",
        "        client_state.learner.write(personal)\n",
        "",
        "the personal model goes on from the global copy",
        DITTO,
    ),
)
