"""Mutants of the methods: what is drawn, sent, weighed, kept and divided by."""

from __future__ import annotations

from bench.mutants.mutant import Mutant

A = "edgefl/algorithms/"
FEDSPU, STOPPING = "tests/algorithms/test_fedspu.py", "tests/algorithms/test_early_stopping.py"
SCHEDULE = "tests/algorithms/test_schedule.py"
DRIFT, FEDUMF = "tests/algorithms/test_drift.py", "tests/algorithms/test_fedumf.py"
PFLEGO, HEADS = "tests/algorithms/test_pflego.py", "tests/algorithms/test_personal_heads.py"
CLI = "tests/commands/test_cli.py"
OWN, FEDPROX = "tests/commands/test_own_method.py", "tests/algorithms/test_fedprox.py"
METHODS, MEAN = "tests/algorithms/test_methods.py", "tests/algorithms/test_mean.py"

MUTANTS = (
    # FedSPU.
    Mutant(
        "neurons-of-client",
        f"{A}fedspu.py",
        "rng.stream(task.seed, rng.NEURONS, client=client, round=round)",
        "rng.stream(task.seed, rng.NEURONS, round=round)",
        "all clients of a round draw the same neurons",
        FEDSPU,
    ),
    Mutant(
        "neurons-of-round",
        f"{A}fedspu.py",
        "rng.NEURONS, client=client, round=round)",
        "rng.NEURONS, client=client)",
        "a client draws the same neurons in every round",
        FEDSPU,
    ),
    Mutant(
        "fedspu-weight",
        f"{A}fedspu.py",
        'reply.examples if self.weight == "samples" else reply.steps',
        '1 if self.weight == "samples" else reply.steps',
        "clients count the same whatever their number of examples",
        FEDSPU,
    ),
    Mutant(
        "fedspu-delta",
        f"{A}fedspu.py",
        "            delta=self.delta,\n",
        "",
        "delta='cut' trains with the exact gradient",
        FEDSPU,
    ),
    Mutant(
        "fedspu-freeze",
        f"{A}fedspu.py",
        "            bn_frozen=self.bn_frozen,\n",
        "",
        "running statistics of frozen channels follow the batches though bn_frozen='freeze'",
        FEDSPU,
    ),
    Mutant(
        "fedspu-limit",
        f"{A}fedspu.py",
        "min(self.tier(client, task.clients), task.limits.get(client, 1.0))",
        "self.tier(client, task.clients)",
        "a client is asked for more than it is willing to train",
        f"{FEDSPU} tests/server/test_coordinator.py",
    ),
    Mutant(
        "round-lt-c",
        f"{A}fedspu.py",
        'len(values["running"]) < min(self.per_round, task.clients)',
        'len(values["running"]) <= min(self.per_round, task.clients)',
        "as many clients as are selected count as too few",
        STOPPING,
    ),
    Mutant(
        "stopped-are-averaged",
        f"{A}fedspu.py",
        "        if MODEL in reply.payload:\n            weight",
        '        if MODEL in reply.payload and reply.status != "stopped":\n            weight',
        "a client's last reply is not averaged",
        STOPPING,
    ),
    Mutant(
        "loss-lam",
        f"{A}fedspu.py",
        '(1 - self.lam) * metrics["validation_loss"]',
        'metrics["validation_loss"]',
        "the held-out loss counts in full",
        STOPPING,
    ),
    # Averages.
    Mutant(
        "fedavg-weight",
        f"{A}fedavg.py",
        'reply.examples if self.weight == "samples" else 1',
        "1",
        "FedAvg weighs every client the same",
        METHODS,
    ),
    Mutant(
        "mean-order",
        f"{A}mean.py",
        "client <= self.clients[-1]",
        "client < self.clients[-1]",
        "a client may be added twice",
        MEAN,
    ),
    Mutant(
        "mean-weight-of-part",
        f"{A}mean.py",
        "add_at(self.weight[name], block, weight)",
        "self.weight[name] += weight",
        "clients that did not train a coordinate count in its mean",
        f"{MEAN} {FEDSPU}",
    ),
    # Local training.
    Mutant(
        "epochs-order",
        f"{A}base.py",
        "round=round, extra=first + epoch)",
        "round=round, extra=first)",
        "every epoch has the order of the first",
        METHODS,
    ),
    Mutant(
        "rate-of-round-one",
        f"{A}schedule.py",
        "passed = round - self.warmup - 1",
        "passed = round - self.warmup",
        "the rate decays before the first round",
        f"{METHODS} {SCHEDULE}",
    ),
    Mutant(
        "warm-up-from-nothing",
        f"{A}schedule.py",
        "self.lr * round / (self.warmup + 1)",
        "self.lr * round / self.warmup",
        "the warm-up ends with the whole rate, which comes twice",
        SCHEDULE,
    ),
    Mutant(
        "decisions-of-one-output",
        "edgefl/learners/losses.py",
        "def decisions(self, outputs: int) -> int:\n        return outputs",
        "def decisions(self, outputs: int) -> int:\n        return 1",
        "of many right decisions an accuracy is made that exceeds 1",
        "tests/experiment/test_losses_of_data.py tests/learners/test_losses.py",
    ),
    Mutant(
        "refuse-no-steps",
        f"{A}base.py",
        "reply.examples < 1 or reply.steps < 1",
        "reply.examples < 1 and reply.steps < 1",
        "a model trained on no examples, or without a step, is averaged",
        "tests/rounds/test_exchange.py",
    ),
    # Drifts.
    Mutant(
        "feddc-decayed-rate",
        f"{A}feddc.py",
        "fit.steps * self.lr",
        "fit.steps * self.rate(plan.round)",
        "FedDC estimates gradients with a rate that decays",
        DRIFT,
    ),
    Mutant(
        "feddc-all-clients",
        f"{A}feddc.py",
        "(h + moved / task.clients)",
        "(h + moved / count)",
        "the mean of the drifts is over the clients of the round",
        DRIFT,
    ),
    Mutant(
        "feddyn-all-clients",
        f"{A}feddyn.py",
        "self.alpha / task.clients * moved",
        "self.alpha / count * moved",
        "FedDyn's h is the mean over the clients of the round",
        DRIFT,
    ),
    Mutant(
        "feddyn-linear",
        f"{A}feddyn.py",
        "{name: -g for name, g in gradient.items()}",
        "{name: g for name, g in gradient.items()}",
        "FedDyn's linear term has the wrong sign",
        DRIFT,
    ),
    # Fusion.
    Mutant(
        "fuse-too-old",
        f"{A}fedumf.py",
        'local.private.get("round") == plan.round - 1',
        'local.private.get("round") is not None',
        "a change of any round before is added",
        FEDUMF,
    ),
    Mutant(
        "fuse-rate",
        f"{A}fedumf.py",
        'fusion * (lr / local.private["lr"])',
        "fusion",
        "a change is not scaled to the rate of today",
        FEDUMF,
    ),
    # Personal heads.
    Mutant(
        "pflego-scale",
        f"{A}pflego.py",
        "task.clients / len(replies.clients) / examples",
        "1 / examples",
        "the gradient of few clients is not scaled to all",
        PFLEGO,
    ),
    Mutant(
        "pflego-head-steps",
        f"{A}pflego.py",
        "mine.head_steps(self.tau - 1,",
        "mine.head_steps(self.tau,",
        "the joint step is one too many",
        PFLEGO,
    ),
    Mutant(
        "fedrecon-mean",
        f"{A}fedrecon.py",
        "replies.total[name] / sum(replies.weights)",
        "replies.total[name] / len(replies.weights)",
        "gradients weighted by examples are divided by clients",
        f"{HEADS} {PFLEGO}",
    ),
    Mutant(
        "adam-bias",
        f"{A}server_optimizer.py",
        "second / (1 - BETA2**steps)",
        "second",
        "Adam's second moment is not corrected",
        "tests/algorithms/test_server_optimizer.py",
    ),
    Mutant(
        "head-of-client",
        f"{A}personal.py",
        "rng.stream(local.seed, rng.HEAD, local.client, round)",
        "rng.stream(local.seed, rng.HEAD, 0, round)",
        "all clients draw the same head",
        f"{HEADS} {PFLEGO}",
    ),
    # FedProx.
    Mutant("prox-draw", f"{A}fedavg.py", ", pull=self.pull(plan.payload[MODEL]))", ")", "nothing draws", FEDPROX),
    Mutant("prox-half", f"{A}fedprox.py", "(self.mu, values", "(self.mu / 2, values", "mu counts half", FEDPROX),
    # Methods of others.
    Mutant(
        "own-frozen",
        f"{A}own.py",
        "or not cast(Any, kind).__dataclass_params__.frozen",
        "",
        "a class that is not frozen is taken in",
        OWN,
    ),
    Mutant(
        "own-looked-up",
        "edgefl/device/model.py",
        "if welcome.method not in (*algorithms.METHODS, *OWN):",
        "if False:",
        "a device does not say how a method that it was not told of is allowed",
        OWN,
    ),
    # What is tested decides nothing.
    Mutant(
        "head-of-tests",
        f"{A}personal.py",
        "np.unique(local.data.y[local.train])",
        "np.unique(local.data.y[np.concatenate([local.train, local.test])])",
        "a head has outputs for classes that are only tested",
        HEADS,
    ),
    Mutant(
        "unknown-right",
        f"{A}base.py",
        "if len(fitting) == len(index):",
        "if True:",
        "a sample of a class that the head has not counts as one of its first",
        HEADS,
    ),
    Mutant(
        "head-optimizer",
        f"{A}head_training.py",
        "self.optimizer_at(self.scheduled(self.beta, round))",
        "self.optimizer_at(self.beta)",
        "the rate of a head has no schedule",
        HEADS,
    ),
    # Options.
    Mutant(
        "by-all", f"{A}__init__.py", "if by_all and lacking:", "if False:", "an option that some lack is dropped", CLI
    ),
    Mutant(
        "former-name",
        f"{A}__init__.py",
        "old = {former[key]: value for key, value in options.items() if key in former}",
        "old: dict[str, Any] = {}",
        "the name that an option had is dropped",
        "tests/device/test_former_names.py",
    ),
    Mutant(
        "begun-set",
        "edgefl/experiment/presets.py",
        "return {**dict(starts), **options}",
        "return {**options, **dict(starts)}",
        "what a method starts from goes before what was set",
        "tests/commands/test_experiment_options.py",
    ),
    Mutant(
        "share-id",
        "edgefl/commands/client.py",
        "client_of(options.data) if options.id is None",
        "None if options.id is None",
        "a device takes any free id, whosever samples it has",
        "tests/experiment/test_shares.py",
    ),
)
