"""The rows of the tutorial's table, as values: which part is trained, by which method, from which weights.

All rows have the same rounds, clients, samples and number of trials for their learning rate. The running statistics are
those of the pretrained network, unless a row says otherwise. Every part has the head, whose first weights are random.
"""

from __future__ import annotations

from typing import Any, NamedTuple

KEPT = ",-*.running_*"  # the pretrained running statistics stay
EVERYTHING = "net.*"  # not *, which also chooses the constants of the module's own code
GRID = (0.02, 0.1, 0.5)  # learning rates that every row tries

SETTINGS: dict[str, Any] = {
    "clients": 20, "per_round": 5, "rounds": 6, "epochs": 1, "batch": 8, "partition": "dirichlet:0.1",
    "train_share": 0.6, "validation_share": 0.2, "eval_every": 6, "tune_rounds": 2,
}  # fmt: skip
OF_METHOD: dict[str, dict[str, Any]] = {
    "fedspu": {"refresh": 1},  # a client trains an epoch before its last test, as with fedavg-ft
    "local": {"per_round": 20, "rounds": 2, "eval_every": 2},  # as many client rounds as fedavg-ft with its tests
}
FOREIGN = {"pflego": ("epochs", "batch")}  # method -> settings that it lacks: a step is one of all samples of a client
SEEDS = 2
SAMPLES = 1600  # of Fashion-MNIST's training part, the first ones
STATISTICS_SAMPLES = 256  # samples after them, by which the network with random weights gets its running statistics


class Part(NamedTuple):
    """A row of the table.

    name     name of the row
    method   federated method
    train    the trained part, as for --train
    weights  "ImageNet" or "random"
    rate     option of the method that is tuned
    """

    name: str
    method: str
    train: str
    weights: str = "ImageNet"
    rate: str = "lr"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the row's runs, without the number of seeds."""
        found = {**SETTINGS, **OF_METHOD.get(self.method, {}), "train": self.train, "tune": {self.rate: list(GRID)}}
        return {name: value for name, value in found.items() if name not in FOREIGN.get(self.method, ())}


PARTS = (
    Part("head", "fedavg-ft", "head"),
    Part("biases and head", "fedavg-ft", "biases,head"),
    Part("norms and head", "fedavg-ft", f"norms,head{KEPT}"),
    Part("last block", "fedavg-ft", f"last:1{KEPT}"),
    Part("last two blocks", "fedavg-ft", f"last:2{KEPT}"),
    Part("everything", "fedavg-ft", f"{EVERYTHING}{KEPT}"),
    Part("FedSPU, last two blocks", "fedspu", f"last:2{KEPT}"),
    Part("FedSPU, everything", "fedspu", f"{EVERYTHING}{KEPT}"),
    Part("PFLEGO, last block", "pflego", f"last:1{KEPT}", rate="beta"),
    Part("everything, random weights", "fedavg-ft", f"{EVERYTHING}{KEPT}", "random"),
    Part("head, random weights", "fedavg-ft", "head", "random"),
    Part("everything, statistics follow", "fedavg-ft", EVERYTHING),
    Part("head, nothing sent", "local", "head"),
)


def chosen(names: list[str]) -> list[Part]:
    """Return the rows of these names, or all rows. Raises ValueError for an unknown name."""
    known = {part.name: part for part in PARTS}
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"part {unknown[0]!r}; expected some of {'; '.join(known)}")
    return [known[name] for name in names] if names else list(PARTS)
