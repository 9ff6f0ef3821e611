"""`bench simulators`: both sides have models of one size, count the rounds alike, and are compared by medians."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import edgefl
from bench.processes import ROOT
from bench.simulators import command, edgefl_side, process_tree, torch_side
from bench.simulators.peers import PEERS
from bench.simulators.task import MODELS, SHAPES, Asked, Result, Rounds, Shape, drawn

WHATS = ("processor, a client and round", "memory, largest", "accuracy")


@pytest.mark.parametrize("name", MODELS)
def test_both_sides_have_the_layers_of_one_model(name: str) -> None:
    values = [each.detach().numpy() for each in torch_side.model_of(name).parameters()]
    model, theirs = edgefl_side.model_of(name, values), [value.shape for value in values]
    model.graph.check(model.params)
    assert [value.shape for value in model.params.values()] == theirs
    if name == "mlp":
        assert sum(map(math.prod, theirs)) == 159_010


def test_a_round_of_the_loop_is_the_mean_of_the_models_of_its_clients() -> None:
    torch.manual_seed(3)
    shape = Shape(clients=2, images=11, per_round=2)
    x, y = torch.rand(22, 1, 28, 28), torch.arange(22) % 10
    model = torch_side.model_of("mlp")
    first = {name: value.clone() for name, value in model.state_dict().items()}
    ends = []
    for client in range(2):
        alone = torch_side.model_of("mlp")
        alone.load_state_dict(first)
        torch_side.train(alone, x[11 * client : 11 * client + 10], y[11 * client : 11 * client + 10])  # one batch
        ends.append(alone.state_dict())
    torch_side.one_round(model, shape, x, y, [0, 1])
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, (ends[0][name] + ends[1][name]) / 2)
        assert not torch.equal(value, first[name])


def test_all_sides_train_the_clients_that_edgefl_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, file, trained = Shape(clients=9, images=10, per_round=4), tmp_path / "images.npz", []
    command._save_images(file, shape, None, is_quick=True)
    command._save_first_values(tmp_path / "mlp.npz", "mlp")
    given = Asked(file, shape, "mlp", rounds=3, seed=5)
    command._save_clients(given)
    simulate = edgefl.simulate

    def watched(*given: Any, **settings: Any) -> Any:
        run = simulate(*given, **settings)
        records = run.methods["fedavg"].seeds[5].log_records
        trained.extend([each["client"] for each in record["clients"]] for record in records)
        return run

    monkeypatch.setattr(edgefl, "simulate", watched)
    edgefl_side.main(given.arguments())
    assert trained == drawn(file)
    assert len({tuple(each) for each in trained}) == 3


def test_the_time_of_a_client_is_that_of_a_median_round_after_the_first() -> None:
    rounds = Rounds(SHAPES["few-large"], [0.0, 5.0, 5.1, 5.3, 5.4])
    assert rounds.result(0.5).cpu_ms == pytest.approx(15.0)  # rounds of 5.0, .1, .2 and .1 s, with 10 clients each


NESTED = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "block = bytearray(b'x' * 30_000_000); print(1, flush=True); input()"])
print(child.wait())
"""


def test_a_process_is_counted_with_all_that_it_started() -> None:
    with subprocess.Popen([sys.executable, "-c", NESTED], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"1\n"  # the child has its block
        outer, inner = process_tree.members(process.pid)
        assert outer == process.pid
        both, one = process_tree.pss_mb(outer), process_tree.pss_mb(inner)
        assert both > one > 30
        process.communicate(b"\n")
    assert process_tree.pss_mb(process.pid) == 0


def test_a_watched_command_has_its_last_line_and_its_memory_or_its_last_words() -> None:
    block = "block = bytearray(b'x' * 40_000_000); print('first'); print('last'); sum(sum(block) for _ in range(3))"
    line, peak = process_tree.run_watched([sys.executable, "-c", block], os.environ)
    assert line == "last" and peak > 40
    with pytest.raises(RuntimeError, match="no such thing"):
        process_tree.run_watched([sys.executable, "-c", "raise SystemExit('no such thing')"], os.environ)


def test_sides_are_compared_by_their_medians() -> None:
    found = {
        "edgefl": [Result(2.0, 0.8, 100.0), Result(1.0, 0.8, 90.0), Result(9.0, 0.8, 95.0)],
        "torch": [Result(4.0, 0.7, 300.0)],
        "pfl": [Result(5.0, 0.75, 400.0)],
    }
    figures = {each.what: each for each in command._compared("x", found)}
    assert figures["x: edgefl over torch, processor"].value == 0.5
    assert (figures["x: edgefl over pfl, processor"].value, figures["x: edgefl over pfl, processor"].bar) == (0.4, 0.35)
    assert figures["x, edgefl: memory, largest"].value == 100.0
    off = figures["x: largest difference of the accuracies"]
    assert off.value == pytest.approx(10.0) and off.bar == 3.0


def test_the_page_s_figures_are_the_record_s() -> None:
    lines = [json.loads(line) for line in (ROOT / "bench/simulators/record.jsonl").read_text().splitlines()]
    found = {each["what"]: each["value"] for each in lines[1:]}
    section = (ROOT / "docs/scale.md").read_text().partition("### Beside other simulators\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ")[1:] for line in section.splitlines() if line.startswith("| 1")]
    sides = (*command.OURS, *PEERS)
    for name, row in zip((f"{shape}, {model}" for shape in SHAPES for model in MODELS), rows, strict=True):
        time, memory, right = ([found[f"{name}, {side}: {what}"] for side in sides] for what in WHATS)
        ratios = [f"{found[f'{name}: edgefl over {side}, processor']:.2f}" for side in sides[1:]]
        together = [", ".join(ratios), ", ".join(f"{each:.0f}" for each in memory)]
        assert row == [*(f"{each:.2f}" for each in time), *together, ", ".join(f"{each:.1f}" for each in right)]
        apart = found[f"{name}: largest difference of the accuracies"]
        assert apart < 100 * command.BAND or f"the accuracies differ by {apart:.1f} points" in " ".join(section.split())


def test_a_quick_run_has_figures_of_both_sides(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--quick", "--json"]) == 0
    _, *lines = map(json.loads, capsys.readouterr().out.splitlines())
    for shape in SHAPES:
        for model in MODELS:
            for side in command.OURS:
                (found,) = (
                    each for each in lines if each["what"] == f"{shape}, {model}, {side}: processor, a client and round"
                )
                assert found["value"] > 0


def test_a_simulation_of_many_clients_has_its_times_and_its_memory(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--registered", "60", "--quick", "--json"]) == 0
    _, *lines = map(json.loads, capsys.readouterr().out.splitlines())
    assert [each["unit"] for each in lines] == ["s", "s", "s", "MB"]
    assert all(each["value"] > 0 and each["what"].startswith("60 clients of 10 samples, 20 a round") for each in lines)


def test_the_figures_of_many_clients_are_those_of_the_record() -> None:
    lines = (ROOT / "bench/simulators/many_clients.jsonl").read_text().splitlines()
    start, each, tested, memory = (json.loads(line) for line in lines[1:])
    page = (ROOT / "docs/scale.md").read_text().partition("## Simulated clients\n")[2].partition("\n## ")[0]
    said = " ".join(page.split())
    assert f"ended after {start['value']:.1f} s" in said and f"A round takes {each['value']:.2f} s" in said
    assert f"and takes {tested['value']:.1f} s" in said and f"has {memory['value']:,.0f} MB" in said
