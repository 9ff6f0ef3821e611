"""python scripts/api.py: writes docs/api.md from the docstrings. `--check` writes nothing, and exits with 1 if it is
old.

The sources are read and not imported, so the script needs no package. The content of the page is listed here, in order.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "api.md"
HEAD = """# API

What programs use, from the docstrings of the sources by `scripts/api.py`. How it goes together is in
[python.md](python.md), [models.md](models.md), [training.md](training.md) and [algorithms.md](algorithms.md).
"""
COLUMNS, BETWEEN = 100, ",\n"
GIVEN = ("Run", "RunResults", "Method", "Seeded", "Client", "TrainedModel")  # nobody makes objects of these classes
METHODS = (
    "fedspu:FedSPU", "fedspu_cached:FedSPUCached", "fedavg:FedAvg", "fedavg_ft:FedAvgFT", "fedprox:FedProx",
    "local_training:LocalOnly", "fedper:FedPer", "fedrep:FedRep", "lg_fedavg:LGFedAvg", "fedbabu:FedBABU",
    "ditto:Ditto", "apfl:APFL", "fedselect:FedSelect", "pflego:PFLEGO", "fedrecon:FedRecon", "fedspa:FedSpa",
    "subsampling:Subsampling", "subfedavg:SubFedAvg", "prunefl:PruneFL", "fedumf:FedUmf", "scaffold:Scaffold",
    "feddyn:FedDyn", "feddc:FedDC", "fedumf_feddc:FedUmfDC", "submodel_training:SubModels",
    "random_dropout:RandomDropout", "fedmp:FedMP", "hermes:Hermes", "fjord:FjORD",
)  # fmt: skip
PARTS = {  # title -> module:name, or a module for its docstring alone. The name after "as" is the users' name
    "Runs": (
        "edgefl.study.simulate:simulate as edgefl.simulate",
        "edgefl.study.run:open_run as edgefl.open_run",
        "edgefl.study.run:Run as edgefl.Run",
        "edgefl.study.run_results:RunResults",
        "edgefl.study.flat_rows",
        "edgefl.study.run:Method as edgefl.Method",
        "edgefl.study.run:Seeded",
        "edgefl.study.run:Client as edgefl.Client",
        "edgefl.study.trained_model:TrainedModel",
        "edgefl.experiment.settings:Experiment as edgefl.Experiment",
    ),
    "Records of rounds, callbacks and trackers": (
        "edgefl.study.round_records:RoundRecord as edgefl.RoundRecord",
        "edgefl.study.callbacks",
        "edgefl.integrations.trackers:TensorBoard",
        "edgefl.integrations.trackers:MLflow",
        "edgefl.integrations.trackers:WandB",
    ),
    "Files of settings": (
        "edgefl.experiment.run_toml",
        "edgefl.experiment.device_models.device_assignment",
        "edgefl.experiment.device_models.device_profile:Profile",
    ),
    "Energy of this machine": (
        "edgefl.learning.energy.meter:meter as edgefl.learning.energy.meter",
        "edgefl.learning.energy.meter:EnergyMeter as edgefl.learning.energy.EnergyMeter",
        "edgefl.learning.energy.meter:idle_watts as edgefl.learning.energy.idle_watts",
    ),
    "Data": (
        "edgefl.experiment.data.catalog:load",
        "edgefl.experiment.data.dataset:DataSet",
        "edgefl.experiment.data.column_choice:Reading",
        "edgefl.experiment.data.npz",
    ),
    "Models": (
        "edgefl.learning.predictor:load as edgefl.load",
        "edgefl.learning.predictor:Predictor as edgefl.Predictor",
        "edgefl.torch.trace:from_torch as edgefl.torch.from_torch",
        "edgefl.torch.graph_module:to_torch as edgefl.torch.to_torch",
        "edgefl.torch.conversion:convert as edgefl.torch.convert",
        "edgefl.torch.conversion:plain as edgefl.torch.plain",
        "edgefl.torch.sparse_layers:sparsify as edgefl.torch.sparsify",
        "edgefl.torch.neuron_selection:select as edgefl.torch.select",
        "edgefl.torch.neuron_selection:keep_frozen as edgefl.torch.keep_frozen",
        "edgefl.torch.neuron_selection:compact_gradients as edgefl.torch.compact_gradients",
        "edgefl.learning.fit_options:FitOptions as edgefl.learning.FitOptions",
        "edgefl.torch.torch_learner:TorchLearner as edgefl.torch.TorchLearner",
    ),
    "Flower": (
        "edgefl.integrations.flower:client_app",
        "edgefl.integrations.flower:server_app",
    ),
    "Methods": (
        "edgefl.methods.algorithm:Algorithm as edgefl.methods.Algorithm",
        "edgefl.methods.task:Task as edgefl.methods.Task",
        "edgefl.methods.task:State as edgefl.methods.State",
        "edgefl.methods.plan:Plan as edgefl.methods.Plan",
        "edgefl.methods.plan:Reply as edgefl.methods.Reply",
        "edgefl.methods.client_state:ClientState as edgefl.methods.ClientState",
        "edgefl.methods.client_state:OwnModel as edgefl.methods.OwnModel",
        "edgefl.methods.accumulator:Accumulator as edgefl.methods.Accumulator",
        "edgefl.methods.sampling:sample_clients as edgefl.methods.sample_clients",
        "edgefl.methods.local_steps:LocalSteps",
        "edgefl.methods.local_steps:LocalTraining",
        *(f"edgefl.methods.{each}" for each in METHODS),
    ),
}


def main(arguments: list[str]) -> int:
    """Write the page, or return 1 if it is not as it should be."""
    text = page()
    if arguments == ["--check"]:
        return int(PAGE.read_text() != text)
    PAGE.write_text(text)
    return 0


def page() -> str:
    """Return the whole page."""
    return "\n".join([HEAD, *(part for title in PARTS for part in [f"## {title}\n", *map(entry, PARTS[title])])])


def entry(what: str) -> str:
    """Return the heading and the text of one entry of PARTS."""
    where, _, known = what.partition(" as ")
    module, _, name = where.partition(":")
    source = _source(module).read_text("utf-8")
    tree = ast.parse(source)
    if not name:
        return f"### {module}\n\n{_block(_doc(tree))}"
    (node,) = (each for each in tree.body if getattr(each, "name", None) == name)
    text = _class(node, source.splitlines()) if isinstance(node, ast.ClassDef) else _function(node, "\n\n")
    return f"### {known or f'{module}.{name}'}\n\n{_block(text)}"


def _source(module: str) -> Path:
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _class(node: ast.ClassDef, lines: list[str]) -> str:
    """Return the text of a class: what it is, how it is made, its fields as in the source, its public methods and
    properties.
    """
    functions = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    made = [_function(each, "\n").replace("__init__", node.name, 1) for each in functions if each.name == "__init__"]
    public = [_function(each, "\n") for each in functions if not each.name.startswith("_")]
    shown = [] if node.name in GIVEN else made
    fields = _fields(node, lines)
    return "\n\n".join([_doc(node), *shown, *([fields] if fields else []), *public])


def fields_of(source: str) -> str:
    """Return the fields of the class that `source` is, as they stand there, with their comments."""
    text = textwrap.dedent(source)
    (node,) = ast.parse(text).body
    return _fields(node, text.splitlines()) if isinstance(node, ast.ClassDef) else ""


def _fields(node: ast.ClassDef, lines: list[str]) -> str:
    return "\n".join(
        line[4:]
        for each in node.body
        if isinstance(each, ast.AnnAssign) and "ClassVar" not in ast.unparse(each.annotation)
        for line in lines[each.lineno - 1 : each.end_lineno]
    )


def _function(node: ast.stmt, gap: str) -> str:
    assert isinstance(node, ast.FunctionDef)
    said = _doc(node) if gap == "\n\n" else _indented(_doc(node))
    return f"{_signature(node)}{gap}{said}" if said else _signature(node)


def _signature(node: ast.FunctionDef) -> str:
    """Return a signature as in the source, without self, with one argument a line where it is long.

    A property has its name and type.
    """
    marks = {ast.unparse(each) for each in node.decorator_list}
    returns = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ""
    if marks & {"property", "cached_property"}:
        return f"{node.name}{returns.replace(' -> ', ': ')}"
    arguments = _arguments(node.args)
    line = f"{node.name}({', '.join(arguments)}){returns}"
    return line if len(line) <= COLUMNS else f"{node.name}(\n{_indented(BETWEEN.join(arguments))}\n){returns}"


def _arguments(given: ast.arguments) -> list[str]:
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + given.defaults
    found = [_argument(*each) for each in zip(plain, defaults, strict=True) if each[0].arg not in ("self", "cls")]
    found += [f"*{_argument(given.vararg, None)}"] if given.vararg else ["*"] if given.kwonlyargs else []
    found += [_argument(*each) for each in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return [*found, *([f"**{_argument(given.kwarg, None)}"] if given.kwarg else [])]


def _argument(given: ast.arg, default: ast.expr | None) -> str:
    kind = f": {ast.unparse(given.annotation)}" if given.annotation else ""
    return f"{given.arg}{kind}" + (f" = {ast.unparse(default)}" if default else "")


def _doc(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> str:
    return inspect.cleandoc(ast.get_docstring(node) or "")


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())


def _block(text: str) -> str:
    return f"```text\n{text.strip()}\n```\n" if text.strip() else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
