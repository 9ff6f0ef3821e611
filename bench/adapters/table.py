"""The tables of docs/adapters.md, made of the record alone: `python -m bench.adapters.table`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bench.adapters import bases_table
from bench.adapters.command import read

HEADINGS = (
    "| | parameters | arena | packing | resident beside process and parameters | seconds of a step | times |",
    "| --- | --- | --- | --- | --- | --- | --- |",
)
SERVED = (
    "| | parameters | trained values | down | up | bytes over values | device | server | replayed, simulated |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
)

QUANTIZED = (
    "| | parameters | resident once loaded | arena | packing | resident beside process and parameters | seconds of a "
    "step | tokens a second |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
)


def limits(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of the parts limits and mobilenet."""
    lines = [_limit(row) for row in rows if row["part"] in ("limits", "mobilenet")]
    return "\n".join([*HEADINGS, *lines])


def served(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of the parts served and served_gpt2."""
    return "\n".join([*SERVED, *(_served(row) for row in rows if row["part"].startswith("served"))])


def loading(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the largest resident memory of a process that loads GPT-2's file, as the page has it."""
    (peak,) = {row["load_peak"] for row in rows if row["part"] == "served_gpt2"}
    return f"{peak / 1e6:.0f} MB"


def step(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the figures of the part step, as the page has them."""
    (row,) = (row for row in rows if row["part"] == "step")
    seconds = [f"{row[name]:.2f} s" for name in ("edgefl_s", "peft_s", "products_s")]
    shares = [f"{row[name]:.2f}" for name in ("of_products", "times_peft", "most_times_peft")]
    return [*seconds, *shares, f"{row['tokens_a_second']:.0f} tokens"]


def quantized(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of the part quantized."""
    return "\n".join([*QUANTIZED, *(_quantized(row) for row in rows if row["part"] == "quantized")])


def _quantized(row: Mapping[str, Any]) -> str:
    names = ("base", "load_peak", "arena", "packing", "resident_beside")
    sizes = [f"{row[name] / 1e6:.0f} MB" for name in names]
    return f"| {row['name']} | {' | '.join(sizes)} | {row['seconds']:.1f} | {row['tokens'] / row['seconds']:.0f} |"


def _limit(row: Mapping[str, Any]) -> str:
    sizes = [f"{row[name] / 1e6:.1f} MB" for name in ("base", "arena", "packing", "resident_beside")]
    return f"| {row['name']} | {' | '.join(sizes)} | {row['seconds']:.2f} | {row['times']:.2f} |"


def _served(row: Mapping[str, Any]) -> str:
    ways = [row[way] for way in ("down", "up")]
    sizes = [f"{sum(way[part] for part in ('values', 'index', 'header')) / 1e6:.2f} MB" for way in ways]
    over = " and ".join(f"{way['over_values']:.4f}" for way in ways)
    equal = " and ".join("yes" if row[name] else "no" for name in ("replayed", "as_simulated"))
    base, *peaks = (f"{row[name] / 1e6:.0f} MB" for name in ("base_bytes", "device_peak", "server_peak"))
    cells = [row["name"], base, f"{row['trained_values']:,}", *sizes, over, *peaks, equal]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    found = read()
    made = [limits(found), served(found), ", ".join(step(found)), loading(found), *bases_table.tables(found).values()]
    print(*made, quantized(found), sep="\n\n")
