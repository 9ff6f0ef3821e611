"""scripts/prose.py counts what CONTRIBUTING, "Language", asks to avoid. The pages stay within its limits."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "prose.py"
CLAUSELESS = {
    "A device sends its model.": False,
    "The model is the graph as canonical JSON.": False,
    "Write a new file and rename it.": False,
    "To run it, install edgefl.": False,
    "A device that trains sends its model.": False,
    "What a server finds is checked before anything is changed.": False,
    "Clients train.": False,
    "Therefore continue the run.": False,
    "The bytes that the codec wrote for rounds of training.": True,
    "Not measured on any board.": True,
    "Of an object, what differs from its class's defaults.": True,
    "How many devices one server serves, and what is beyond it.": True,
    "A line for each device, and its tier.": True,
}
OTHERS = {  # rule -> a sentence, and how often it breaks the rule
    "fronted": [
        ("Of several seeds the mean is drawn.", 1),
        ("Of course it is.", 0),
        ("The mean of several seeds is drawn.", 0),
    ],
    "semicolon": [("A waits; B goes; C ends.", 2), ("A waits. `a; b` is code.", 0)],
    "pointer": [
        ("A loss that is none is refused.", 1),
        ("Some have none of it.", 0),
        ("It lists those that differ.", 1),
        ("It lists those clients that differ.", 0),
        ("The others get the same.", 1),
        ("The bits are the same.", 0),
        ("It shows the same value.", 0),
        ("The figures beside it are older.", 1),
    ],
    "long": [
        (" ".join(["The", *["very"] * 38, "end."]), 0),
        (f"A file ends in {', '.join(['.csv'] * 38)}.", 0),
        (" ".join(["The", *["very"] * 39, "end."]), 1),
    ],
}
PAGE = """# A title; not counted

One sentence. Two [links; here](x.md#a).

<!-- not run: an example -->
```sh
a; b; c
```

| a; b | c |
| --- | --- |

* **term**: what it is; a phrase. A sentence is here.
* a phrase without a full stop
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    found = importlib.util.spec_from_file_location("prose", SCRIPT)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.parametrize("sentence", CLAUSELESS)
def test_a_sentence_without_a_main_clause_is_found(script: ModuleType, sentence: str) -> None:
    assert script.judge(sentence)["clauseless"] == CLAUSELESS[sentence]


@pytest.mark.parametrize(("rule", "sentence", "times"), [(rule, *row) for rule, rows in OTHERS.items() for row in rows])
def test_the_other_rules_count_their_occurrences(script: ModuleType, rule: str, sentence: str, times: int) -> None:
    assert sum(script.judge(each)[rule] for each in script.sentences(sentence)) == times


def test_only_prose_is_read(script: ModuleType) -> None:
    read = [each for paragraph in script.prose(PAGE) for each in script.sentences(paragraph)]
    assert read == ["One sentence.", "Two links; here.", "A sentence is here."]


def test_lines_of_comment_that_follow_each_other_are_one_comment(script: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("# One; two\n# three.\nx = 1  # four\ny = 2  # five\n# noqa: F401\n\n# six\n")
    assert list(script._comments_of(file)) == ["One; two three.", "four", "five", "six"]


def test_a_string_under_a_constant_or_a_field_is_a_docstring(script: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text(
        '"""A module."""\nX = 1\n"""A constant; one."""\nprint(X)\n"no docstring"\n\n\n'
        'class C:\n    """A class."""\n\n    x: int = 1\n    """\n    Whose value is one.\n    """\n'
    )
    assert list(script._docstrings_of(file)) == ["A module.", "A constant; one.", "A class.", "Whose value is one."]


def test_a_title_without_a_phrase_of_its_own_is_read(script: ModuleType) -> None:
    assert list(script._after_title("What a device sends.\n\nIt sends values.")) == [
        "What a device sends.",
        "It sends values.",
    ]
    assert list(script._after_title("The values of a device.")) == []


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("number of rounds (default: 3)", []),
        ("time in seconds. The word inf means never. (for example: 3) (default: 5 (s))", ["The word inf means never."]),
        ("what happens to a reply (default: refuse)", ["what happens to a reply"]),
        ("number of rounds; default: 3", ["number of rounds; default: 3"]),
    ],
)
def test_a_help_text_may_begin_with_a_phrase_and_end_with_its_default(
    script: ModuleType, text: str, read: list[str]
) -> None:
    assert list(script._after_phrase(text)) == read


def test_a_rate_is_of_all_sentences_together(script: ModuleType) -> None:
    rates = script.rates({"a": ["It ends. It begins; it ends."], "b": ["Not so. It is."]})
    assert (rates["clauseless"], rates["semicolon"]) == (25.0, 25.0)


def test_a_figure_above_its_limit_is_named(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = dict.fromkeys(script.RULES, 100.0) | {"clauseless": 20.0}
    monkeypatch.setitem(script.LIMITS, "pages", limits)
    (fault,) = script.above_limits("pages", {"a": ["Not so. It is."]})
    assert fault.startswith("pages: 50.00 clauseless per 100 sentences; the limit is 20.0")


def test_the_pages_are_within_their_limits(script: ModuleType) -> None:
    assert script.above_limits("pages", script.pages()) == []


def test_the_docstrings_are_within_their_limits(script: ModuleType) -> None:
    assert script.above_limits("docstrings", script.docstrings()) == []


def test_the_help_texts_are_within_their_limits(script: ModuleType) -> None:
    texts = script.help_texts()
    assert len(texts) > 15
    assert script.above_limits("help texts", texts) == []


def test_the_comments_are_within_their_limits(script: ModuleType) -> None:
    assert script.above_limits("comments", script.comments()) == []
