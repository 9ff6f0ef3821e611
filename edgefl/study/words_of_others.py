"""Names of settings in other programs for federated learning, and of torch's optimizers, with the names that
`edgefl.simulate` has for them. Refusals use the table to say what to write instead. No name here is a setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ROUNDS, CLIENTS, EPOCHS, BATCH, RATE = "rounds", "clients", "epochs", "batch", "lr"
PER_ROUND = "per_round, a number of clients"
STOPPING = "on_round, which sees every round and may end the run (docs/python.md)"
HERE: Mapping[str, str] = {  # name of a setting in other programs -> its name here
    **dict.fromkeys(("num_rounds", "num_server_rounds", "global_rounds", "comm_round"), ROUNDS),
    **dict.fromkeys(("num_clients", "client_num_in_total", "num_partitions"), CLIENTS),
    **dict.fromkeys(("local_epochs", "num_epochs", "local_ep", "epoch"), EPOCHS),
    **dict.fromkeys(("batch_size", "local_bs", "train_batch_size"), BATCH),
    **dict.fromkeys(("learning_rate", "local_learning_rate", "client_lr"), RATE),
    **dict.fromkeys(("fraction_fit", "fraction_train", "join_ratio", "frac"), PER_ROUND),
    **dict.fromkeys(("min_fit_clients", "clients_per_round", "client_num_per_round"), PER_ROUND),
    **dict.fromkeys(("early_stopping", "early_stop", "patience", "save_best"), STOPPING),
    **dict.fromkeys(("dirichlet_alpha", "non_iid_alpha"), "partition='dirichlet:ALPHA'"),
    **dict.fromkeys(("criterion", "loss_fn", "loss_function"), "loss"),
    **dict.fromkeys(("random_seed", "random_state"), "seed"),
}
OPTIMIZERS = {"SGD": "sgd", "Adam": "adam", "AdamW": "adamw"}
USUAL = {"momentum": 0, "nesterov": False, "weight_decay": 0, "betas": (0.9, 0.999), "eps": 1e-08}
MOST_LETTERS = 60  # most letters of a value in a message


def shown(value: Any) -> str:
    """Write a value in one line of a message."""
    text = " ".join(repr(value).split())
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}..."


def check_optimizer(value: Any) -> None:
    """Raise ValueError for an optimizer of torch, an object or a class, and name the settings that stand for it."""
    kind = value if isinstance(value, type) else type(value)
    if not kind.__module__.startswith("torch.optim"):
        return
    if kind.__name__ not in OPTIMIZERS:
        raise ValueError(f"optimizer is torch.optim.{kind.__name__}; expected one of {', '.join(OPTIMIZERS.values())}")
    given = {} if isinstance(value, type) else value.defaults
    settings = {name: given[name] for name, usual in {"lr": None, **USUAL}.items() if given.get(name, usual) != usual}
    settings = {"optimizer": OPTIMIZERS[kind.__name__], **settings}
    words = ", ".join(f"{name}={setting!r}" for name, setting in settings.items())
    raise ValueError(f"optimizer is torch.optim.{kind.__name__}; expected settings, as {words}")
