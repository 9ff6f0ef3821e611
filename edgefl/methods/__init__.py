"""The federated methods by name, the options that become their hyper-parameters, and the names for authors of methods.

A method is one file in this folder. The folder rounds/ has what simulation, server and device share of a round. Nothing
here opens a socket or makes a byte of a message.

A method's file is read when the method is first asked for, so a device imports only the method that it runs. A method
from outside edgefl has to be registered first (method_registry.py). Looking up a name here never imports a file that is
not edgefl's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from edgefl import _lazily
from edgefl.errors import expected_name
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_state import ClientState, OwnModel
from edgefl.methods.method_label import Variant, label_of
from edgefl.methods.method_registry import OWN
from edgefl.methods.option_checks import check_range
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.sampling import sample_clients
from edgefl.methods.task import BODY, MODEL, State, Task
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.update import values

if TYPE_CHECKING:
    from edgefl.methods.apfl import APFL
    from edgefl.methods.ditto import Ditto
    from edgefl.methods.fedavg import FedAvg
    from edgefl.methods.fedavg_ft import FedAvgFT
    from edgefl.methods.fedbabu import FedBABU
    from edgefl.methods.feddc import FedDC
    from edgefl.methods.feddyn import FedDyn
    from edgefl.methods.fedmp import FedMP
    from edgefl.methods.fedper import FedPer
    from edgefl.methods.fedprox import FedProx
    from edgefl.methods.fedrecon import FedRecon
    from edgefl.methods.fedrep import FedRep
    from edgefl.methods.fedselect import FedSelect
    from edgefl.methods.fedspa import FedSpa
    from edgefl.methods.fedspu import FedSPU
    from edgefl.methods.fedspu_cached import FedSPUCached
    from edgefl.methods.fedumf import FedUmf
    from edgefl.methods.fedumf_feddc import FedUmfDC
    from edgefl.methods.fjord import FjORD
    from edgefl.methods.hermes import Hermes
    from edgefl.methods.lg_fedavg import LGFedAvg
    from edgefl.methods.local_steps import LocalTraining
    from edgefl.methods.local_training import LocalOnly
    from edgefl.methods.pflego import PFLEGO
    from edgefl.methods.prunefl import PruneFL
    from edgefl.methods.random_dropout import RandomDropout
    from edgefl.methods.scaffold import Scaffold
    from edgefl.methods.subfedavg import SubFedAvg
    from edgefl.methods.submodel_training import SubModels
    from edgefl.methods.subsampling import Subsampling

FILES = {
    "APFL": "apfl",
    "Ditto": "ditto",
    "FedAvg": "fedavg",
    "FedAvgFT": "fedavg_ft",
    "FedBABU": "fedbabu",
    "FedDC": "feddc",
    "FedDyn": "feddyn",
    "FedMP": "fedmp",
    "FedPer": "fedper",
    "FedProx": "fedprox",
    "FedRecon": "fedrecon",
    "FedRep": "fedrep",
    "FedSPU": "fedspu",
    "FedSPUCached": "fedspu_cached",
    "FedSelect": "fedselect",
    "FedSpa": "fedspa",
    "FedUmf": "fedumf",
    "FedUmfDC": "fedumf_feddc",
    "FjORD": "fjord",
    "Hermes": "hermes",
    "LGFedAvg": "lg_fedavg",
    "LocalOnly": "local_training",
    "LocalTraining": "local_steps",
    "PFLEGO": "pflego",
    "PruneFL": "prunefl",
    "RandomDropout": "random_dropout",
    "Scaffold": "scaffold",
    "SubFedAvg": "subfedavg",
    "SubModels": "submodel_training",
    "Subsampling": "subsampling",
}


_class = _lazily(__name__, {name: f"{__name__}.{file}" for name, file in FILES.items()})
if not TYPE_CHECKING:
    __getattr__ = _class


def _made(kind: str, **settings: Any) -> Callable[[], Algorithm]:
    """Return a function that makes the method of a class with these settings once. It reads the class's file then."""
    return cache(lambda: _class(kind)(**settings))


METHODS: dict[str, Callable[[], Algorithm]] = {
    "fedspu": _made("FedSPU"),
    "fedspu-es": _made("FedSPU", es=True),
    "fedspu-cached": _made("FedSPUCached"),
    "fedspu-cached-es": _made("FedSPUCached", es=True),
    "fedavg": _made("FedAvg"),
    "local": _made("LocalOnly"),
    "fedavg-ft": _made("FedAvgFT"),
    "fedprox": _made("FedProx"),
    "scaffold": _made("Scaffold"),
    "fedumf": _made("FedUmf"),
    "feddyn": _made("FedDyn"),
    "feddc": _made("FedDC"),
    "fedumf-feddc": _made("FedUmfDC"),
    "pflego": _made("PFLEGO"),
    "fedspa": _made("FedSpa"),
    "fedspa-rsm": _made("FedSpa", search="rsm"),
    "subsampling": _made("Subsampling"),
    "fedper": _made("FedPer"),
    "fedrep": _made("FedRep"),
    "fedbabu": _made("FedBABU"),
    "lg-fedavg": _made("LGFedAvg"),
    "fedrecon": _made("FedRecon"),
    "ditto": _made("Ditto"),
    "apfl": _made("APFL"),
    "fedselect": _made("FedSelect"),
    "subfedavg": _made("SubFedAvg"),
    "prunefl": _made("PruneFL"),
    "random-dropout": _made("RandomDropout"),
    "fedmp": _made("FedMP"),
    "hermes": _made("Hermes"),
    "fjord": _made("FjORD"),
}


def build(label: str, options: Mapping[str, Any]) -> Algorithm:
    """Build the method of a label (method_label.py) with its own options, and with the other options that the method
    has.

    Raises  ValueError for an unknown name or a wrong value
    """
    name, own = _read(label)
    known = settings_of(name)
    chosen = {key: value for key, value in {**renamed(name, options), **own}.items() if key in known}
    for key, value in chosen.items():
        check_range(key, value)
    return replace(_default(name), **chosen)  # type: ignore


def labelled(label: str) -> str:
    """Return the one label that stands for all ways of writing this label. Raises ValueError as `build` does."""
    name, own = _read(label)
    return label_of(name, own)


def _read(label: str) -> tuple[str, dict[str, Any]]:
    """Return the name of the method, and its own options."""
    name, written = Variant.of(label)
    former = _default(name).former
    texts = [(former.get(key, key), value) for key, value in written]
    for key, value in texts:
        if key == "rounds":
            raise ValueError(f"method={label} has rounds={value}; expected --rounds, which all methods of a run share")
    return name, {key: parse([name], key, value) for key, value in texts}


def _default(name: str) -> Algorithm:
    """Return the method of this name with its default values. Raises ValueError for an unknown name."""
    if name in METHODS or name in OWN:
        return (METHODS.get(name) or OWN[name])()
    raise ValueError(f"method={name}; {expected_name(name, [*METHODS, *OWN])}")


def renamed(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of this method, and maybe of others, by their present names. A present name goes before a former
    name.
    """
    former = _default(name).former
    old = {former[key]: value for key, value in options.items() if key in former}
    return {**old, **{key: value for key, value in options.items() if key not in former}}


def settings_of(name: str) -> dict[str, Any]:
    """Return the hyper-parameters of a method and their default values, in the order of its file.

    Raises ValueError for an unknown name.
    """
    method = _default(name)
    return {f.name: getattr(method, f.name) for f in fields(method)}  # type: ignore[arg-type]


def parse(methods: Sequence[str], name: str, text: str, by_all: bool = False) -> Any:
    """Return the value of `--set name=text` in the type that this hyper-parameter has in these methods.

    Raises  ValueError as `having` does, or naming the value and what its type accepts
    """
    found = having(methods, name, text, by_all)
    return _as(get_type_hints(type(_default(found[0])))[name], name, text)


def having(methods: Sequence[str], name: str, text: str, by_all: bool = False) -> list[str]:
    """Return the methods among these that have this hyper-parameter, which is set to `text`.

    by_all  whether all of the methods must have it, and not just one
    Raises  ValueError naming the existing hyper-parameters, or the methods that have this one and the methods that lack
            it
    """
    methods = tuple(dict.fromkeys(methods))
    found = [method for method in methods if name in settings_of(method)]
    if not found:
        if name.partition("_")[0] == "es":
            raise ValueError(
                f"{name}={text} is not a hyper-parameter of {', '.join(methods)}, for which early stopping is not "
                "defined; expected a method for which it is, such as fedspu, fedavg or fedper"
            )
        accepted = sorted({key for method in methods for key in settings_of(method)})
        now = next((new for method in methods if (new := _default(method).former.get(name))), None)
        known = expected_name(name, accepted) if now is None else f"expected its present name, {now}"
        raise ValueError(f"{name}={text} is not a hyper-parameter of {', '.join(methods)}; {known}")
    lacking = [method for method in methods if method not in found]
    if by_all and lacking:
        own = f"{found[0]}:{name}={text}"
        raise ValueError(
            f"{name}={text}: {', '.join(found)} {_has(found)} it, {', '.join(lacking)} {_has(lacking)} not; expected "
            f"methods that all have it, or an option of a single method, as --method {own},..."
        )
    return found


def _has(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"


def _as(kind: Any, name: str, text: str) -> Any:
    try:
        if kind is bool:
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        if get_origin(kind) is tuple:
            return tuple(float(part) for part in text.split(","))
        if get_origin(kind) is Literal:
            return {choice: choice for choice in get_args(kind)}[text]
        return kind(text)
    except (KeyError, ValueError):
        raise ValueError(f"{name}={text}; expected {_describe(kind)}") from None


def _describe(kind: Any) -> str:
    if kind is bool:
        return "true or false"
    if get_origin(kind) is tuple:
        return "numbers separated by commas"
    if get_origin(kind) is Literal:
        return " or ".join(get_args(kind))
    return {int: "an integer", float: "a number"}.get(kind, str(kind))


__all__ = [
    "APFL",
    "BODY",
    "METHODS",
    "MODEL",
    "PFLEGO",
    "Accumulator",
    "Algorithm",
    "ClientState",
    "Ditto",
    "FedAvg",
    "FedAvgFT",
    "FedBABU",
    "FedDC",
    "FedDyn",
    "FedMP",
    "FedPer",
    "FedProx",
    "FedRecon",
    "FedRep",
    "FedSPU",
    "FedSPUCached",
    "FedSelect",
    "FedSpa",
    "FedUmf",
    "FedUmfDC",
    "FjORD",
    "Hermes",
    "LGFedAvg",
    "LocalOnly",
    "LocalTraining",
    "OwnModel",
    "Plan",
    "PruneFL",
    "RandomDropout",
    "Reply",
    "Scaffold",
    "State",
    "SubFedAvg",
    "SubModels",
    "Subsampling",
    "Task",
    "build",
    "having",
    "labelled",
    "parse",
    "sample_clients",
    "settings_of",
    "take",
    "values",
]
