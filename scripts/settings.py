"""python scripts/settings.py: writes docs/settings.md, and the types of the settings of `edgefl.simulate`.

Both follow from edgefl/experiment/experiment_fields.py and from the fields of the methods' classes. `--check` writes
nothing, and exits with 1 if a file is old.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from edgefl.cli.experiment_arguments import default_of
from edgefl.experiment.experiment_fields import ExperimentFields
from edgefl.experiment.setting_description import description_of
from edgefl.experiment.settings import SHARED
from edgefl.methods import METHODS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "settings.md"
TYPES = ROOT / "edgefl" / "experiment" / "simulate_settings.py"
BY_HAND = ("methods", "data", "model", "options", "tune", "tuned")  # arguments of `simulate`, or not for users
PAGE_HEAD = """# Settings

The table has the settings of an experiment. `edgefl.simulate` takes them by name, `run.toml` has them as keys, and the
command line has an option for most of them. `scripts/settings.py` writes the page from the fields of `Experiment`. The
hyper-parameters of the methods are in [algorithms](algorithms.md), and `edgefl methods NAME` lists them.

| setting | option | default | meaning |
| --- | --- | --- | --- |
"""
TYPES_HEAD = '''"""The settings that `edgefl.simulate` takes by name, with their types, for editors and type checkers.

scripts/settings.py writes this file from the fields of Experiment (experiment_fields.py) and of the methods.
docs/settings.md says what the settings mean. Nothing imports this file while a program runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypedDict

from edgefl.learning.losses import Loss

HyperParameter = bool | int | float | str | Sequence[float]


class SimulateSettings(TypedDict, total=False):
    """Settings of an experiment, and hyper-parameters of the methods. A setting that is left out has its default."""

    tune: Mapping[str, Sequence[HyperParameter]]
    options: Mapping[str, HyperParameter]  # hyper-parameters, also of methods that are not edgefl's own
'''


def main(arguments: list[str]) -> int:
    """Write the files, or return 1 if one of them is not as it should be."""
    texts = {PAGE: page(), TYPES: types()}
    if arguments == ["--check"]:
        return int(any(path.read_text() != text for path, text in texts.items()))
    for path, text in texts.items():
        path.write_text(text)
    return 0


def page() -> str:
    """Return the page, with a row for each setting."""
    return PAGE_HEAD + "".join(map(_row, (each for each in fields(ExperimentFields) if each.name != "tuned")))


def types() -> str:
    """Return the source of the typed dictionary."""
    plain = (each for each in fields(ExperimentFields) if each.name not in BY_HAND)
    lines = [f"    {each.name}: {_setting_type(each)}" for each in plain]
    methods = [f"    {name}: {kind}" for name, kind in sorted(_hyper_parameters())]
    return TYPES_HEAD + "\n".join([*lines, "", "    # hyper-parameters", *methods]) + "\n"


def _row(each: Field[Any]) -> str:
    about = description_of(each)
    option = about.option or (f"--{each.name.replace('_', '-')}" if about.group else "")
    told = default_of(each.name) if about.default is None else about.default
    default = told or ("off" if each.default is False else "")
    meaning = about.meaning[0].upper() + about.meaning[1:] + ("" if about.meaning.endswith(".") else ".")
    return f"| `{each.name}` | {option and f'`{option}`'} | {default} | {meaning.replace('|', chr(92) + '|')} |\n"


def _setting_type(each: Field[Any]) -> str:
    about = description_of(each)
    if about.kind:
        return about.kind.replace("'", '"')
    if about.choices:
        return f"Literal[{', '.join(f'{choice!r}' for choice in about.choices)}]".replace("'", '"')
    return _written(get_type_hints(ExperimentFields)[each.name])


def _hyper_parameters() -> Iterator[tuple[str, str]]:
    """Yield the names and the types of the methods' hyper-parameters that are no settings of the experiment."""
    found: dict[str, list[Any]] = {}
    for make in METHODS.values():
        hints = get_type_hints(type(make()))
        for each in fields(make()):  # type: ignore[arg-type]
            if each.name not in SHARED:
                found.setdefault(each.name, []).append(hints[each.name])
    for name, kinds in found.items():
        texts = dict.fromkeys(map(_written, kinds))
        yield name, textwrap.shorten(" | ".join(texts), 110)


def _written(kind: Any) -> str:
    """Return a type as it is written. A tuple of any length may be given as any sequence, or as one value."""
    if get_origin(kind) is Literal:
        return f"Literal[{', '.join(f'{choice!r}' for choice in get_args(kind))}]".replace("'", '"')
    if get_origin(kind) is tuple:
        one = get_args(kind)[0].__name__
        return f"{one} | Sequence[{one}]"
    return getattr(kind, "__name__", "") if isinstance(kind, type) else str(kind).replace("typing.", "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
