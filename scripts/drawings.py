"""python scripts/drawings.py: draws docs/drawings/*.svg. `--check` writes nothing, and exits with 1 if a drawing is
old.

The drawings have the text colour of the page that shows them, and two colours of their own that are readable on light
and on dark. The numbers of memory.svg come from the schedules that the native learner runs. The numbers of
fine-tuning.svg come from the record of `python -m bench fine-tuning`. Nothing is trained.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.fine_tuning import picture, record  # noqa: E402
from edgefl.learning.lowering.arena_inventory import LOSSES, arena_tensors  # noqa: E402
from edgefl.learning.lowering.lower import lower  # noqa: E402
from edgefl.learning.lowering.schedule import Schedule  # noqa: E402
from edgefl.models.graph.architectures import EXAMPLES, build  # noqa: E402
from edgefl.models.neurons.model_spec import ModelSpec  # noqa: E402
from edgefl.models.neurons.neuron_set import NeuronSet  # noqa: E402
from edgefl.rng import NEURONS, stream  # noqa: E402

FOLDER = ROOT / "docs" / "drawings"
ACTIVE, SENT = "#2f81f7", "#d9822b"  # blue is what is trained, orange is what is sent
STYLE = "<style>.drawing{color:#1f2328}@media(prefers-color-scheme:dark){.drawing{color:#e6edf3}}</style>"
MODEL, BATCH, KEEP = "fedspu_emnist", 16, 0.2


class Drawing:
    """The parts of one SVG. Coordinates and sizes are in pixels."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height, self.parts = width, height, list[str]()

    def box(self, x: float, y: float, w: float, h: float, colour: str = "currentColor", fill: float = 0.06) -> None:
        """Draw a rounded rectangle with a pale filling."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="6" stroke="{colour}" fill="{colour}" '
            f'fill-opacity="{fill:g}"/>'
        )

    def text(self, x: float, y: float, lines: str, size: int = 14, anchor: str = "middle", colour: str = "") -> None:
        """Draw lines of text. y is the baseline of the first line."""
        fill = colour or "currentColor"
        for at, line in enumerate(lines.split("\n")):
            self.parts.append(
                f'<text x="{x:g}" y="{y + at * size * 1.35:g}" font-size="{size}" text-anchor="{anchor}" fill="{fill}" '
                f'stroke="none">{escape(line)}</text>'
            )

    def line(self, *points: float, colour: str = "currentColor", width: float = 1.5, opacity: float = 1) -> None:
        """Draw a line through points x, y, x, y, ..."""
        path = " ".join(f"{x:g},{y:g}" for x, y in zip(points[::2], points[1::2], strict=True))
        self.parts.append(
            f'<polyline points="{path}" stroke="{colour}" stroke-width="{width:g}" stroke-opacity="{opacity:g}"/>'
        )

    def arrow(self, x: float, y: float, to: float, colour: str = "currentColor") -> None:
        """Draw a level arrow from x to `to`."""
        back = 9 if to < x else -9
        self.line(x, y, to, y, colour=colour, width=2)
        self.line(to + back, y - 5, to, y, to + back, y + 5, colour=colour, width=2)

    def drop(self, x: float, y: float, to: float) -> None:
        """Draw an upright arrow that points down."""
        self.line(x, y, x, to)
        self.line(x - 4, to - 7, x, to, x + 4, to - 7)

    def circle(self, x: float, y: float, active: bool) -> None:
        """Draw a neuron, which is filled where it is active."""
        colour, fill = (ACTIVE, 1) if active else ("currentColor", 0)
        self.parts.append(
            f'<circle cx="{x:g}" cy="{y:g}" r="11" stroke="{colour}" fill="{ACTIVE}" fill-opacity="{fill}"/>'
        )

    def point(self, x: float, y: float, colour: str, is_filled: bool) -> None:
        """Draw a point of a chart."""
        self.parts.append(
            f'<circle cx="{x:g}" cy="{y:g}" r="6" stroke="{colour}" fill="{colour}" fill-opacity="{int(is_filled)}"/>'
        )

    def svg(self) -> str:
        """Return the whole file."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="drawing" viewBox="0 0 {self.width} {self.height}" '
            'fill="none" stroke-width="1.5" font-family="system-ui, sans-serif">'
        )
        return "\n".join([head, STYLE, *self.parts, "</svg>", ""])


def architecture() -> Drawing:
    """Draw devices and a server, and the parts inside each."""
    drawing = Drawing(900, 430)
    drawing.box(20, 20, 330, 330)
    drawing.text(185, 46, "A device, with a model of its own", 15)
    parts = ("agent, client: join a run, keep state", "method: what to train, what to send",
             "learner: read, write, fit, evaluate", "lowering: graph to list of kernel calls",
             "kernels in C++ for each instruction set")  # fmt: skip
    for at, part in enumerate(parts):
        y = 64 + at * 45
        drawing.box(40, y, 290, 32, ACTIVE, 0.12)
        drawing.text(185, y + 21, part, 12)
        if at:
            drawing.drop(185, y - 13, y - 1)
    drawing.box(40, 294, 290, 40)
    drawing.text(185, 319, "own samples and frozen weights: never sent", 12)
    drawing.box(590, 20, 290, 330)
    drawing.text(735, 46, "The server", 15)
    parts = ("connections: TLS, keys, deadlines", "coordinator: rounds, verdicts (no I/O)",
             "method: plan and aggregate", "store: run.db survives a crash")  # fmt: skip
    for at, part in enumerate(parts):
        y = 64 + at * 55
        drawing.box(610, y, 250, 36, SENT, 0.12)
        drawing.text(735, y + 23, part, 12)
        if at:
            drawing.drop(735, y - 18, y - 1)
    drawing.text(735, 319, "It has a common model and no samples.", 13)
    drawing.arrow(590, 110, 350, SENT)
    drawing.text(470, 98, "plan, and values of the active part", 13)
    drawing.arrow(350, 200, 590, SENT)
    drawing.text(470, 188, "trained values of the same part", 13)
    drawing.text(470, 222, "one payload format, every byte checked", 11)
    drawing.box(20, 370, 860, 44)
    drawing.text(
        450, 397, "edgefl simulate: the same methods, learners and payloads in one process, without sockets", 14
    )
    return drawing


def fedspu_round() -> Drawing:
    """Draw a round of FedSPU as six steps between the server and one device."""
    drawing = Drawing(900, 500)
    for x, who in ((30, "server"), (620, "device 7, p = 0.4")):
        drawing.box(x, 14, 250, 40)
        drawing.text(x + 125, 39, who, 15)
    for x, since, until in (
        (155, 54, 72),
        (155, 122, 378),
        (155, 428, 438),
        (745, 54, 188),
        (745, 238, 258),
        (745, 308, 488),
    ):
        drawing.line(x, since, x, until, opacity=0.4)
    steps = (
        (155, 92, "1. The server draws the devices of the round,\nand for each device its active neurons."),
        (
            745,
            208,
            "3. The device writes the values into its own model.\nThe weights of frozen neurons stay as they were.",
        ),
        (
            745,
            278,
            "4. The device trains. The forward pass uses the whole\nmodel, and the active weights alone are changed.",
        ),
        (155, 398, "6. The server averages each weight over the devices\nthat trained the weight, by their samples."),
        (155, 458, "A weight that nobody trained keeps its value.\nThen the next round begins."),
    )
    for x, y, text in steps:
        left = 10 if x < 450 else 510
        colour = SENT if x < 450 else ACTIVE
        drawing.box(left, y - 20, 380, 50, colour, 0.14)
        drawing.text(left + 190, y + 1, text, 13)
    drawing.arrow(155, 160, 745, SENT)
    drawing.text(450, 150, "2. which neurons are active, and the values of their weights", 13)
    drawing.arrow(745, 345, 155, SENT)
    drawing.text(450, 335, "5. the trained values of the same weights", 13)
    return drawing


LAYERS = ((0, 1, 2, 3), (0, 2, 3), (1, 4), (0, 1, 2))  # active neurons of each layer
SIZES = (4, 5, 5, 3)


def frozen() -> Drawing:
    """Draw a small network with active and frozen neurons, and the matrix between its hidden layers."""
    drawing = Drawing(900, 430)
    _network(drawing)
    left, top, cell = 590, 110, 44
    drawing.text(left + 2.5 * cell, 50, "weights from hidden layer 1 (columns)\nto hidden layer 2 (rows)", 13)
    for row in range(5):
        for column in range(5):
            sent = row in LAYERS[2] and column in LAYERS[1]
            colour, fill = (SENT, 0.75) if sent else ("currentColor", 0.04)
            drawing.box(left + column * cell, top + row * cell, cell - 5, cell - 5, colour, fill)
    for at in range(5):
        drawing.text(left + at * cell + 19, top - 8, str(at + 1), 12, colour=ACTIVE if at in LAYERS[1] else "")
        drawing.text(left - 12, top + at * cell + 25, str(at + 1), 12, colour=ACTIVE if at in LAYERS[2] else "")
    drawing.text(
        left + 2.5 * cell,
        top + 5 * cell + 24,
        "sent and trained: 2 x 3 = 6 of 25 values\nfrozen: 19 values, used and not changed",
        13,
    )
    drawing.text(
        450, 405, "blue: active neurons and the weights between them · grey: frozen · orange: values that are sent", 13
    )
    return drawing


def _network(drawing: Drawing) -> None:
    places = [
        [(70 + 140 * at, 200 + 62 * (row - (size - 1) / 2)) for row in range(size)] for at, size in enumerate(SIZES)
    ]
    for at, (here, there) in enumerate(pairwise(places)):
        ends = [(a, b, a in LAYERS[at] and b in LAYERS[at + 1]) for a in range(len(here)) for b in range(len(there))]
        for a, b, active in sorted(ends, key=lambda each: each[2]):
            colour, width, opacity = (ACTIVE, 2, 0.9) if active else ("currentColor", 1, 0.2)
            drawing.line(*here[a], *there[b], colour=colour, width=width, opacity=opacity)
    for at, layer in enumerate(places):
        for row, place in enumerate(layer):
            drawing.circle(*place, row in LAYERS[at])
    for at, name in enumerate(("input", "hidden 1", "hidden 2", "output")):
        drawing.text(70 + 140 * at, 370, name, 13)


def memory() -> Drawing:
    """Draw the live bytes of the arena over the kernel calls of a training step, dense and with active neurons."""
    graph = build(MODEL, *EXAMPLES[MODEL])
    spec = ModelSpec.of(graph)
    dense, part = (lower(graph, spec, BATCH, keep) for keep in (None, NeuronSet.draw(spec, KEEP, stream(1, NEURONS))))
    drawing = Drawing(900, 440)
    left, right, bottom, top = 80, 870, 370, 70
    names = [call.op for call in part.calls]
    wide, high = (right - left) / len(names), (bottom - top) / 1800
    for kb in range(0, 1801, 300):
        drawing.line(left, bottom - kb * high, right, bottom - kb * high, width=1, opacity=0.15)
        drawing.text(left - 8, bottom - kb * high + 4, f"{kb:,}", 12, "end")
    for live, colour in ((_aligned(dense, names), "currentColor"), (_live(part), ACTIVE)):
        points = [value for at, bytes_ in enumerate(live) for edge in (at, at + 1)
                  for value in (left + edge * wide, bottom - bytes_ / 1000 * high)]  # fmt: skip
        drawing.line(*points, colour=colour, width=2.5)
    loss = next(at for at, name in enumerate(names) if name in LOSSES)
    drawing.line(left + loss * wide, top - 10, left + loss * wide, bottom, opacity=0.5)
    drawing.text(left + loss * wide / 2, bottom + 22, "forward pass", 13)
    drawing.text(left + (loss + len(names)) * wide / 2, bottom + 22, "loss, backward pass and updates", 13)
    drawing.text(
        (left + right) / 2,
        bottom + 46,
        f"{len(names)} kernel calls of one training step ({len(dense.calls)} with all neurons), in order",
        13,
    )
    drawing.text(20, 24, f"kB that are live in the arena; {MODEL}, a batch of {BATCH}", 14, "start")
    drawing.text(right, 24, f"all neurons: peak {max(_live(dense)) / 1000:,.0f} kB", 14, "end")
    drawing.text(
        right,
        46,
        f"p = {KEEP:g}: peak {max(_live(part)) / 1000:,.0f} kB at one call, less in most others",
        14,
        "end",
        ACTIVE,
    )
    return drawing


def _live(schedule: Schedule) -> list[int]:
    """Return the bytes that are live at each call."""
    tensors = arena_tensors(schedule)
    return [sum(each.bytes for each in tensors if each.first <= at <= each.last) for at in range(len(schedule.calls))]


def _aligned(schedule: Schedule, names: Sequence[str]) -> list[int]:
    """Return the live bytes at the calls of another schedule. A call that this one lacks has the bytes of the call
    before it.
    """
    live, calls = _live(schedule), [call.op for call in schedule.calls]
    found, at = list[int](), 0
    for name in names:
        if at < len(calls) and calls[at] == name:
            found.append(live[at])
            at += 1
        else:
            found.append(found[-1])
    return found


def fine_tuning() -> Drawing:
    """Draw what the trained parts of a pretrained network reach, over the bytes that they send."""
    drawing = Drawing(picture.WIDTH, picture.HEIGHT)
    picture.draw(drawing, record.read(), {"fedavg-ft": SENT, "fedspu": ACTIVE})
    return drawing


DRAWINGS = {"architecture": architecture, "fedspu-round": fedspu_round, "frozen-and-sent": frozen, "memory": memory,
            "fine-tuning": fine_tuning}  # fmt: skip


def main(arguments: list[str]) -> int:
    """Write the drawings, or return 1 if they are not as they should be."""
    texts = {FOLDER / f"{name}.svg": draw().svg() for name, draw in DRAWINGS.items()}
    if arguments == ["--check"]:
        return int(any(not path.exists() or path.read_text() != text for path, text in texts.items()))
    FOLDER.mkdir(exist_ok=True)
    for path, text in texts.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
