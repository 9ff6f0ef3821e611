"""Pictures that an attacker rebuilds from one client's update, and from the sum over a group of clients.

Every client trains one fresh model with its own pictures, and the attacker knows the model, the rate and all labels. An
update is treated as if it were a gradient, which it is after one step. The attacker of a sum rebuilds all pictures of
the group at once. The scores favour the attacker: each original is compared with the rebuilt picture that fits best.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.func import functional_call

from bench.secure.inversion_attacks import GradientAttack, gradients_of, neurons_pictures
from edgefl import rng
from edgefl.experiment.data.dataset import DataSet
from edgefl.models.graph.architectures import build
from edgefl.models.graph.graph import Model
from edgefl.torch import to_torch

VICTIMS = 20  # clients of a case, at least
RATE = 0.01  # of the clients' local steps
BEST_DB = 60.0  # stands for every smaller error
RECOGNISED_DB = 20.0


@dataclass(frozen=True)
class Case:
    """A setting of the attack.

    model    preset of edgefl
    samples  pictures of each client
    steps    local steps of one epoch, which share the client's pictures evenly
    clients  clients whose updates are summed; 1 for an open update
    """

    model: str
    samples: int
    steps: int
    clients: int


SIZES = (1, 3, 5, 10)
CLIENTS_WORK = [
    ("feddyn_mlp", 1, 1),
    ("feddyn_mlp", 4, 1),
    ("feddyn_mlp", 16, 1),
    ("feddyn_mlp", 16, 4),
    ("lenet5", 4, 1),
]
CASES = [Case(*work, clients) for work in CLIENTS_WORK for clients in SIZES]


class Rebuilt(NamedTuple):
    """Originals and the rebuilt picture of each original, [pictures, *shape], and the errors, [pictures] in dB."""

    originals: Tensor
    pictures: Tensor
    psnr: np.ndarray[Any, Any]

    def scores(self) -> dict[str, float]:
        """Return the mean PSNR in dB, and the shares of recognised pictures and of nearest neighbours."""
        nearest = _errors(self.pictures, self.originals).argmin(1)
        return {
            "psnr": round(float(self.psnr.mean()), 1),
            "recognised": round(float((self.psnr >= RECOGNISED_DB).mean()), 3),
            "matched": round(float((nearest == np.arange(len(nearest))).mean()), 3),
        }


class Victims:
    """The clients of a case, their pictures [groups, clients, samples, *shape], and the model that they train."""

    def __init__(self, data: DataSet, case: Case, seed: int) -> None:
        self.case, self.seed = case, seed
        groups = -(-VICTIMS // case.clients)
        draw = np.random.default_rng(seed)
        # The first clients are the same in every case with as many samples each.
        ids = draw.permutation(len(data.y))[: groups * case.clients * case.samples]
        self.shape = torch.Size(data.x.shape[1:])
        self.pictures = self._pictures(data, ids).reshape(groups, case.clients, case.samples, *self.shape)
        self.labels = torch.tensor(data.y[ids].astype(np.int64)).reshape(groups, case.clients, case.samples)
        graph = build(case.model, tuple(self.shape), data.classes)
        self.model = to_torch(Model(graph, graph.init(rng.stream(seed, "init"))))
        others = np.setdiff1d(draw.permutation(len(data.y))[:5000], ids)
        known, labels = self._pictures(data, others), data.y[others]
        self.guesses = torch.stack([known[labels == each].mean(0) for each in range(data.classes)])

    @staticmethod
    def _pictures(data: DataSet, ids: np.ndarray[Any, Any]) -> Tensor:
        return torch.tensor(data.x[ids].astype(np.float32) * data.scale + data.shift)

    def originals(self) -> Tensor:
        """Return all pictures, [pictures, *shape]."""
        return self.pictures.flatten(0, 2)

    def sums(self) -> list[Tensor]:
        """Return what the server learns: the sum of each group's updates over -RATE, [groups, *parameter]."""
        groups, clients = self.pictures.shape[:2]
        updates = self._updates(self.pictures.flatten(0, 1), self.labels.flatten(0, 1))
        return [-each.reshape(groups, clients, *each.shape[1:]).sum(1) / RATE for each in updates]

    def _updates(self, pictures: Tensor, labels: Tensor) -> list[Tensor]:
        """Return the change of every parameter by each client's local steps, [clients, *parameter]."""
        start = [each.detach() for each in self.model.parameters()]
        if self.case.steps == 1:
            return [-RATE * each.detach() for each in gradients_of(self.model, pictures, labels)]
        changes = [_trained(self.model, *client, self.case.steps) for client in zip(pictures, labels, strict=True)]
        return [torch.stack(each) - before for each, before in zip(zip(*changes, strict=True), start, strict=True)]


def _trained(model: nn.Module, pictures: Tensor, labels: Tensor, steps: int) -> list[Tensor]:
    """Return the parameters after one epoch of plain SGD."""
    values = {name: each.detach().clone().requires_grad_() for name, each in model.named_parameters()}
    for inputs, classes in zip(pictures.chunk(steps), labels.chunk(steps), strict=True):
        loss = nn.functional.cross_entropy(functional_call(model, values, (inputs,)), classes)
        slopes = torch.autograd.grad(loss, list(values.values()))
        values = {
            name: (each - RATE * slope).detach().requires_grad_()
            for (name, each), slope in zip(values.items(), slopes, strict=True)
        }
    return [each.detach() for each in values.values()]


def attacked(victims: Victims, attack: GradientAttack) -> dict[str, Rebuilt]:
    """Return what each attack rebuilds, by its name. "guess" is the mean picture of the label, without any update."""
    sums, labels = victims.sums(), victims.labels.flatten(1)
    found = attack.rebuild(victims.model, sums, labels, victims.shape, victims.seed)
    originals = victims.pictures.flatten(1, 2)
    rebuilt = {
        "gradient": _joined([_paired(*each) for each in zip(originals, found, strict=True)]),
        "guess": _joined([_scored(*each) for each in zip(originals, victims.guesses[labels], strict=True)]),
    }
    if victims.case.model.endswith("mlp"):
        shown = [neurons_pictures(weight, bias, victims.shape) for weight, bias in zip(sums[0], sums[1], strict=True)]
        rebuilt["neuron"] = _joined([_best(*each) for each in zip(originals, shown, strict=True)])
    return rebuilt


def rows(data: DataSet, cases: list[Case], seeds: list[int], attack: GradientAttack) -> list[dict[str, Any]]:
    """Return a row for each case, attack and seed."""
    found: list[dict[str, Any]] = []
    for case in cases:
        for seed in seeds:
            victims = Victims(data, case, seed)
            for name, rebuilt in attacked(victims, attack).items():
                counts = {"victims": victims.labels[..., 0].numel(), "pictures": len(rebuilt.originals)}
                found.append({**asdict(case), "seed": seed, "attack": name, **counts, **rebuilt.scores()})
    return found


def table(found: list[dict[str, Any]]) -> list[str]:
    """Return the lines of a table in Markdown: mean PSNR and share of matched pictures, over all seeds."""
    sizes = ["one update", *(f"sum of {size}" for size in SIZES[1:])]
    head = ["model", "pictures of a device", "local steps", "attack", *sizes]
    lines = [head, ["---"] * len(head)]
    for work in dict.fromkeys((row["model"], row["samples"], row["steps"], row["attack"]) for row in found):
        of_work = [row for row in found if (row["model"], row["samples"], row["steps"], row["attack"]) == work]
        cells = [_cell([row for row in of_work if row["clients"] == size]) for size in SIZES]
        lines.append([f"`{work[0]}`", *map(str, work[1:]), *cells])
    return [f"| {' | '.join(line)} |" for line in lines]


def _cell(seeds: list[dict[str, Any]]) -> str:
    psnr, matched = (float(np.mean([row[name] for row in seeds])) for name in ("psnr", "matched"))
    return f"{psnr:.1f} dB, {100 * matched:.0f} %"


def shown(data: DataSet, case: Case, seed: int, attack: GradientAttack) -> dict[int, dict[str, Rebuilt]]:
    """Return what the attacks rebuild from open updates and from sums of the same clients, by the clients of a sum."""
    return {size: attacked(Victims(data, replace(case, clients=size), seed), attack) for size in SIZES}


def _errors(some: Tensor, others: Tensor) -> np.ndarray[Any, Any]:
    """Return the mean squared errors of all pairs, [some, others]."""
    a, b = some.flatten(1).double(), others.flatten(1).double()
    found: np.ndarray[Any, Any] = torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").square().numpy()
    return found / a.shape[1]


def _paired(originals: Tensor, rebuilt: Tensor) -> Rebuilt:
    """Pair originals and rebuilt pictures one to one, so that the sum of the errors is least."""
    return _scored(originals, rebuilt[linear_sum_assignment(_errors(originals, rebuilt))[1]])


def _best(originals: Tensor, candidates: Tensor) -> Rebuilt:
    """Give each original the candidate with the least error."""
    return _scored(originals, candidates[_errors(originals, candidates).argmin(1)])


def _scored(originals: Tensor, pictures: Tensor) -> Rebuilt:
    error = (originals - pictures).double().flatten(1).square().mean(1).numpy()
    return Rebuilt(originals, pictures, np.minimum(-10 * np.log10(np.maximum(error, 1e-12)), BEST_DB))


def _joined(parts: list[Rebuilt]) -> Rebuilt:
    return Rebuilt(
        torch.cat([each.originals for each in parts]),
        torch.cat([each.pictures for each in parts]),
        np.concatenate([each.psnr for each in parts]),
    )
