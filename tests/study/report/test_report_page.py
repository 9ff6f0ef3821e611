"""The page of a report as a parser reads it: what stands in it, and what cannot."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from datetime import datetime, timezone
from html.parser import HTMLParser
from pathlib import Path

import pytest

from edgefl.study.report.page_style import SCRIPT, STYLE
from edgefl.study.report.report_file import TITLES, page
from edgefl.study.report.reported_run import ReportedRun, TrialState
from tests.study.report.made_run import made_run

NOW = datetime(2026, 11, 26, 7, 5, tzinfo=timezone.utc)
HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)>\"'&</title></style>"
VOID = {"meta", "img", "br", "link"}
OUTSIDE = ("src", "srcset", "data", "poster", "action", "formaction", "background", "xlink:href")
MOST_BYTES = 1_000_000


class Parsed(HTMLParser):
    """The tags of a page with their attributes, its text, and where tags do not close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.text += " "
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.text += " "
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("style", "script"):
            self.text += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


def parsed(*runs: ReportedRun) -> Parsed:
    return Parsed(page(runs, NOW))


def hostile() -> ReportedRun:
    """A run in which every name that a user or a peer may choose is markup."""
    run = made_run(
        HOSTILE, methods=(HOSTILE, "fedspu:" + HOSTILE), edges=(HOSTILE,), tuning=(HOSTILE,), notes=(HOSTILE,)
    )
    experiment = replace(run.experiment, data=HOSTILE, partition=HOSTILE, model=HOSTILE, methods=(HOSTILE,))
    devices = {0: (HOSTILE,), 1: (HOSTILE,)}
    states = (*run.states, TrialState(HOSTILE, 9, 1, False, False))
    return replace(
        run,
        experiment=experiment,
        provenances=(HOSTILE,),
        devices=devices,
        lacking=HOSTILE,
        states=states,
        is_served=True,
    )


def test_every_tag_is_closed_in_turn_and_every_id_is_there_once() -> None:
    found = parsed(made_run(), made_run("other"))
    assert (found.open, found.wrong) == ([], [])
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] for attributes in found.named("a")]
    assert {f"#{id}" for id in ids} >= set(links)


def test_all_sections_are_there_and_linked() -> None:
    found = parsed(made_run())
    assert [attributes["id"] for attributes in found.named("section")] == list(TITLES)
    assert [attributes["href"] for attributes in found.named("a")] == ["#main", *(f"#{id}" for id in TITLES)]


def test_nothing_is_asked_of_another_place() -> None:
    found = parsed(made_run(), hostile())
    assert not {"link", "img", "iframe", "object", "embed", "base", "form", "video", "audio", "use", "image"} & {
        tag for tag, _ in found.tags
    }
    for _, attributes in found.tags:
        assert not set(OUTSIDE) & set(attributes)
        assert attributes.get("href", "#") is not None and str(attributes.get("href", "#")).startswith("#")
    assert not re.search(r"url\(|@import|https?:", STYLE + SCRIPT)


def test_the_policy_allows_the_page_s_own_style_and_script_alone() -> None:
    text = page([made_run()], NOW)
    (policy,) = (each["content"] for each in Parsed(text).named("meta") if "http-equiv" in each)
    assert policy is not None and policy.startswith("default-src 'none'; ")
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert not [attributes for _, attributes in Parsed(text).tags if "style" in attributes or "onclick" in attributes]


def test_names_with_markup_are_text() -> None:
    plain, found = parsed(made_run()), parsed(hostile())
    assert {tag for tag, _ in found.tags} <= {tag for tag, _ in plain.tags} | {"ul", "li", "h3"}
    assert len(found.named("script")) == len(found.named("style")) == 1
    assert (found.open, found.wrong) == ([], [])
    assert found.text.count(HOSTILE) > 20
    known = {name for _, attributes in plain.tags for name in attributes}
    assert {name for _, attributes in found.tags for name in attributes} <= known


def test_tables_have_captions_and_their_heads_a_scope() -> None:
    found = parsed(made_run(), made_run("other"))
    assert len(found.named("table")) == len(found.named("caption")) > 10
    assert {attributes.get("scope") for attributes in found.named("th")} == {"col", "row"}
    regions = [each for each in found.named("div") if each.get("role") == "region"]
    assert len(regions) == len(found.named("table"))
    assert all(each.get("tabindex") == "0" and each.get("aria-label") for each in regions)


def test_charts_have_captions_and_words_for_those_who_do_not_see_them() -> None:
    found = parsed(made_run())
    charts = [each for each in found.named("svg") if each.get("role") == "img"]
    assert len(charts) == len(found.named("figure")) == len(found.named("figcaption")) == 7
    assert charts[0]["aria-label"] == "Accuracy over rounds: fedspu ends at 92.25 %; fedavg ends at 95.25 %."
    hidden = [each for each in found.named("svg") if each.get("role") != "img"]
    assert all(each.get("aria-hidden") == "true" for each in hidden)


def test_a_method_has_one_colour_in_all_runs_and_a_run_one_dash() -> None:
    found = parsed(made_run(), made_run("other", methods=("local", "fedavg")))
    first = [str(each["class"]).split() for each in found.named("path") if str(each.get("class")).startswith("line ")]
    assert first[:4] == [["line", "c0", "d0"], ["line", "c1", "d0"], ["line", "c2", "d1"], ["line", "c1", "d1"]]


def test_runs_that_differ_are_told_apart() -> None:
    one = made_run()
    other = made_run("other", experiment=replace(one.experiment, lr=0.5, epochs=9))
    words = parsed(one, other).words
    assert "What differs between the runs setting made other epochs 5 9 lr 0.05 0.5 The main settings" in words
    assert "The runs have the same settings." in parsed(one, made_run("other")).words
    assert "What differs" not in parsed(one).words


def test_a_run_that_goes_on_says_so() -> None:
    states = (TrialState("fedspu", 1, 3, False, True), TrialState("fedavg", 1, 0, False, False))
    words = parsed(made_run(states=states, methods=("fedspu",), seeds=1)).words
    assert (
        "Here the run has not ended: fedspu with seed 1 has closed 3 rounds; fedavg with seed 1 has closed 0 rounds, "
        "not evaluated yet. The figures are those of the last evaluated round so far."
    ) in words
    assert "fedavg - not over 0 of 4 - - - -" in words


def test_a_run_without_an_evaluation_has_a_page() -> None:
    states = (TrialState("fedspu", 1, 0, False, False),)
    found = parsed(made_run(by_seed={}, states=states))
    assert "Here no round has been evaluated yet, so there are no figures." in found.words
    assert [attributes["id"] for attributes in found.named("section")] == ["overview", "settings", "provenance"]
    assert found.named("svg") == []


def test_provenance_names_makers_devices_and_data() -> None:
    devices = {0: ("edgefl 0.1.0 native-neon",), 1: ("edgefl 0.1.0 native-neon",)}
    words = parsed(made_run(devices=devices, notes=("y: 3 classes",))).words
    assert f"directory {Path('runs') / 'made'} made by edgefl 0.1.0+3e7ad57212 native-avx512" in words
    assert "2 devices edgefl 0.1.0 native-neon" in words
    assert "40 samples of shape [8, 8]: 20 for training, 10 for validation, 10 for testing" in words
    assert "ab" * 32 in words and "y: 3 classes" in words
    assert "SHA-256 of the data not kept, as the run was made by an older edgefl" in parsed(made_run(data=())).words
    assert "Written on 26 November 2026 at 07:05 UTC, of one run." in words


def test_the_worst_clients_are_named() -> None:
    """Clients 0, 1, 2, 3 of seed 1 are right about 90, 91, 92 and 93 of 100, and with fedavg about 3 more."""
    words = parsed(made_run()).words
    assert "client p test samples fedspu fedavg 0 0.2 100 90.0 % 93.0 % 1 0.2 100 91.0 % 94.0 % 2 1" in words


def test_five_hundred_rounds_of_two_hundred_clients_are_below_a_megabyte() -> None:
    methods = ("fedspu", "fedavg-ft", "fedavg", "local", "fedper")
    text = page([made_run(methods=methods, seeds=2, rounds=500, clients=200)], NOW)
    assert len(text.encode()) < MOST_BYTES
    assert "All 200 clients" in text
    assert max(path.count("L") for path in re.findall(r'class="line [^"]*" d="([^"]*)"', text)) == 399


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_of_lines_stand_out_from_the_page(theme: str) -> None:
    from edgefl.study.report.looks import DARK, LIGHT

    paper, colours = {"light": ("#f6f8fa", LIGHT), "dark": ("#161b22", DARK)}[theme]
    assert [colour for colour in colours if contrast(colour, paper) < 3] == []


def contrast(one: str, other: str) -> float:
    """Return the contrast as WCAG 2 defines it."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
