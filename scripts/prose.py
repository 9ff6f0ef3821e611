"""python scripts/prose.py: counts in the documentation what CONTRIBUTING, "Language", asks to avoid.

It reads the pages of docs/, README.md and CONTRIBUTING.md: their prose, without blocks, tables and headings.
`--docstrings` reads the docstrings of csrc/, edgefl/ and server/ too, `--comments` their comments, and `--help-texts`
the help of every command. `--list RULE` prints the sentences that a rule counts, `--sample N` prints N random sentences
with its verdict on each, and `--check` exits with 1 where a figure is above its limit. LIMITS has the limits. A limit
may only sink.

The count of sentences without a main clause is a heuristic: a list of verb forms, not a parser. CONTRIBUTING gives its
precision, which was checked by hand on random sentences.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import io
import itertools
import random
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(each) for each in (ROOT, ROOT / "scripts") if str(each) not in sys.path]
from main_clause import has_main_clause, words  # noqa: E402  # beside this file

GENERATED = ("docs/api.md",)  # its sentences come from docstrings
LONG = 40  # words that a sentence may have
RULES = ("clauseless", "fronted", "semicolon", "pointer", "long")
LIMITS = {  # occurrences per 100 sentences
    "pages": {"clauseless": 0.7, "fronted": 0.0, "semicolon": 2.3, "pointer": 0.1, "long": 0.6},
    "docstrings": {"clauseless": 0.1, "fronted": 0.0, "semicolon": 0.0, "pointer": 0.0, "long": 0.0},
    "comments": dict.fromkeys(RULES[1:], 0.0),
    "help texts": dict.fromkeys(RULES, 0.0),
}
LABEL = re.compile(  # no sentence: a tag, a lead-in such as `Options:`, an ordinal, or code alone
    r"\W*|\[\w+\]|[^:]{1,40}:|\w{1,2}[.)]?|(?:\w+: )?(?:CODE(?: \([^)]*\))?[,.:; ]*(?:(?:and|or) )?)+"
)
TERM = re.compile(r"\s*(?:\*\*[^*]+\*\*|`[^`]+`(?:(?:,| and| or) `[^`]+`)*)\s*[.:]\s+")  # what a definition defines


def sentences(text: str) -> list[str]:
    """Return the sentences of plain prose. A code span becomes the word CODE, so that its full stops end nothing."""
    plain = re.sub(r"^\*\*[^*]+[.:]\*\*", "", " ".join(text.split()))  # a label such as `**Bits.**`
    plain = re.sub(r"`+[^`]*`+", "CODE", plain)
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", plain)
    plain = re.sub(r"\*\*|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w)", "", plain)
    plain = re.sub(r"\b(e\.g|i\.e|cf|vs|etc|Alg|Fig|Sec|Eq|no)\.", r"\1", plain)
    parts = [each.strip() for each in re.split(r"(?<=[.!?])[\"')]*\s+(?=[A-Z(\"'\[])", plain)]
    return [part for part in parts if not LABEL.fullmatch(part)]


def prose(page: str) -> Iterator[str]:
    """Yield the paragraphs and list items of a page in Markdown, without blocks, tables, headings and comments."""
    page = re.sub(r"^(\s*)```.*?^\s*```", "", page, flags=re.MULTILINE | re.DOTALL)
    page = re.sub(r"<!--.*?-->|<[a-z/][^>]*>", "", page, flags=re.DOTALL)
    page = re.sub(r"\$\$.*?\$\$", "", page, flags=re.DOTALL)
    paragraph: list[str] = []
    defines = False
    for line in [*page.splitlines(), ""]:
        bare = line.strip()
        starts = re.match(r"([*+-]|\d+[.)]) ", bare)
        apart = not bare or bare.startswith(("#", "|", "---")) or (line.startswith("    ") and not paragraph)
        if (apart or starts) and paragraph:
            text = " ".join(paragraph)
            if not (defines and re.search(r"[\w)`]$", text)):  # an item without a full stop is a phrase of a list
                yield _without_term(text) if defines else text
            paragraph, defines = [], False
        if not apart:
            paragraph.append(bare[starts.end() :] if starts else bare)
            defines = defines or bool(starts)


def _without_term(item: str) -> str:
    """Return a list item without its term and the noun phrase that defines it: `* **term**: what it is. A sentence.`"""
    term = TERM.match(item)
    if not term:
        return item
    definition, *more = re.split(r"(?<=[.])\s+(?=[A-Z])", item[term.end() :], maxsplit=1)
    lead = sentences(definition)
    return " ".join([] if lead and any(map(has_main_clause, lead)) is False else [definition]) + " " + " ".join(more)


HEADLESS = re.compile(r"(What|How|Which|Where|Who|Whose|When|Of|Its|Their|Theirs|They|It)\b")  # no phrase of its own
SUFFIX = re.compile(r"(?<!\w)(\.[a-z]\w*)+")  # of a file, as .csv.gz: it is not a word
FRONTED = re.compile(r"^Of (?!course)")
POINTERS = re.compile(
    r"\b(?:is|are|has|have|was|were|had|needs?|with|for|by|or|in) none\b(?! of)|^[Nn]one\b(?! of)"
    r"|\b[Tt]hose(?= (?:that|who|whose|which|of|in|with|without|are|is|on|at|for|from|by|above|below)\b|[.,;:)])"
    r"|(?<!is )(?<!are )(?<!be )(?<!stay )(?<!stays )\bthe same(?=[.,;:)]| (?:of|for|in|with|by|from|on|there|here)\b)"
    r"|\b[Bb]eside (?:it|them)\b"
)


def count(paragraphs: Iterable[str]) -> tuple[int, dict[str, list[str]]]:
    """Return the number of sentences, and for each rule the sentences that it counts, one entry per occurrence."""
    found: dict[str, list[str]] = {rule: [] for rule in RULES}
    total = 0
    for paragraph in paragraphs:
        for sentence in sentences(paragraph):
            total += 1
            for rule, times in judge(sentence).items():
                found[rule] += [sentence] * times
    return total, found


def judge(sentence: str) -> dict[str, int]:
    """Return how often one sentence breaks each rule."""
    return {
        "clauseless": int(not sentence.endswith(":") and not has_main_clause(sentence)),  # a caption ends with a colon
        "fronted": int(bool(FRONTED.search(sentence))),
        "semicolon": sentence.count(";"),
        "pointer": len(POINTERS.findall(re.sub(r'"[^"]*"', "", sentence))),  # a quoted word is not used
        "long": int(len([each for each in words(SUFFIX.sub("", sentence)) if each[0].isalnum()]) > LONG),
    }


def pages() -> dict[str, list[str]]:
    """Return every page that a person wrote, with its paragraphs."""
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    named = {str(file.relative_to(ROOT)): file for file in files}
    return {name: list(prose(file.read_text("utf-8"))) for name, file in named.items() if name not in GENERATED}


def docstrings() -> dict[str, list[str]]:
    """Return the docstrings of modules, classes, functions, constants and fields, by file.

    A first line may be a noun phrase.
    """
    texts: dict[str, list[str]] = {}
    for file in _sources():
        texts[str(file.relative_to(ROOT))] = [
            paragraph for text in _docstrings_of(file) for paragraph in _after_title(text)
        ]
    return texts


def comments() -> dict[str, list[str]]:
    """Return the comments of every file.

    Lines that follow each other are one comment, and a comment may be a phrase.
    """
    return {str(file.relative_to(ROOT)): list(_comments_of(file)) for file in _sources()}


def _sources() -> list[Path]:
    return sorted(path for room in ("csrc", "edgefl", "server") for path in (ROOT / room).rglob("*.py"))


def _comments_of(file: Path) -> Iterator[str]:
    """Yield comments without their marks. Comments for tools, such as noqa, are left out."""
    tokens = tokenize.generate_tokens(io.StringIO(file.read_text("utf-8")).readline)
    text, last = "", 0
    for token in tokens:
        if token.type != tokenize.COMMENT or re.match(r"#!|# (noqa|type:|fmt:|pragma)", token.string):
            continue
        alone, words_of = token.line.lstrip().startswith("#"), token.string.lstrip("# ")
        if text and not (alone and token.start[0] == last + 1):
            yield text
            text = ""
        text, last = f"{text} {words_of}".strip(), token.start[0] if alone else 0
    if text:
        yield text


def _docstrings_of(file: Path) -> Iterator[str]:
    """Yield the docstrings of a module, of all its classes and functions, and of the names that it assigns."""
    for node in _statements(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ""
            yield from _attribute_docstrings(node.body)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the node and all statements beneath it. No docstring stands beneath an expression."""
    yield node
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, field, None) or ():
            yield from _statements(each)


def _attribute_docstrings(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the strings that follow an assignment. Such a string documents a constant or a field."""
    for before, statement in itertools.pairwise(body):
        text = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(before, (ast.Assign, ast.AnnAssign)) and isinstance(text, ast.Constant):
            yield inspect.cleandoc(str(text.value))


def _after_title(text: str) -> Iterator[str]:
    """Yield paragraphs without rows such as `name  what it is`. A title that is a noun phrase is left out."""
    first, *rest = [part for part in re.split(r"\n\s*\n", text) if part.strip()] or [""]
    title, *more = sentences(first) or [""]
    if HEADLESS.match(title) or any(times for rule, times in judge(title).items() if rule != "clauseless"):
        yield title
    yield from more
    for part in rest:
        kept = [line for line in part.splitlines() if not re.search(r"\S {2,}\S", line) and not line.startswith("    ")]
        yield " ".join(kept)


def help_texts() -> dict[str, list[str]]:
    """The help of every option that a command shows, its description and its groups'. A noun phrase may come first."""
    commands = importlib.import_module("edgefl.cli.commands")
    texts = {}
    for name in commands.COMMANDS:
        parser = commands.parser_of(name, prog=f"edgefl {name}")
        beside = [parser.description, parser.epilog, *(group.description for group in parser._action_groups)]
        shown = [action.help for action in parser._actions if action.help != argparse.SUPPRESS]
        texts[f"edgefl {name}"] = [each for text in (*beside, *shown) for each in _after_phrase(text or "")]
    return texts


def _after_phrase(text: str) -> Iterator[str]:
    """The sentences of a help text without parentheses at its end. A first one that is a noun phrase is left out."""
    bare = re.sub(r"(\s*\((default|for example): ([^()]|\([^()]*\))*\))+$", "", " ".join(text.split()))
    first, *more = sentences(bare) or [""]
    if HEADLESS.match(first[:1].upper() + first[1:]) or any(
        each for rule, each in judge(first).items() if rule != RULES[0]
    ):
        yield first
    yield from more


def rates(sources: dict[str, list[str]]) -> dict[str, float]:
    """Return occurrences of every rule per 100 sentences, over all sources together."""
    total, found = count(paragraph for paragraphs in sources.values() for paragraph in paragraphs)
    return {rule: 100 * len(found[rule]) / max(total, 1) for rule in RULES}


def above_limits(kind: str, sources: dict[str, list[str]]) -> list[str]:
    """Return a sentence for every figure that is above its limit."""
    return [
        f"{kind}: {rate:.2f} {rule} per 100 sentences; the limit is {LIMITS[kind][rule]} "
        f"(python scripts/prose.py --list {rule} shows the sentences)"
        for rule, rate in rates(sources).items()
        if rate > LIMITS[kind].get(rule, 100.0)
    ]


def show(kind: str, sources: dict[str, list[str]]) -> None:
    """Print the figures of every file, and of all files."""
    print(f"{kind:32} sentences {' '.join(f'{rule:>10}' for rule in RULES)}   (per 100 sentences)")
    rows = [*((name, [name]) for name in sources), ("all", list(sources))]
    for title, names in rows:
        total, found = count(paragraph for name in names for paragraph in sources[name])
        if total:
            print(f"{title:32} {total:9} {' '.join(f'{100 * len(found[rule]) / total:10.1f}' for rule in RULES)}")


def listing(sources: dict[str, list[str]], rule: str) -> None:
    for name, paragraphs in sources.items():
        for sentence in count(paragraphs)[1][rule]:
            print(f"{name}: {sentence}")


def sample(sources: dict[str, list[str]], number: int) -> None:
    everything = [each for texts in sources.values() for text in texts for each in sentences(text)]
    for sentence in random.Random(1).sample(everything, min(number, len(everything))):
        print("clause   " if has_main_clause(sentence) else "NO CLAUSE", sentence)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Count what the rules of language ask to avoid.")
    parser.add_argument("--docstrings", action="store_true", help="read the docstrings of the code as well")
    parser.add_argument("--comments", action="store_true", help="read the comments of the code as well")
    parser.add_argument("--help-texts", action="store_true", help="read the help of every command as well")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a figure is above its limit")
    parser.add_argument("--list", choices=RULES, metavar="RULE", help=f"print its sentences: {', '.join(RULES)}")
    parser.add_argument("--only", metavar="NAME", default="", help="read files whose name contains NAME")
    parser.add_argument("--sample", type=int, metavar="N", help="print N random sentences with the verdict on each")
    options = parser.parse_args(arguments)
    kinds = {"pages": pages()}
    kinds |= {"docstrings": docstrings()} if options.docstrings else {}
    kinds |= {"comments": comments()} if options.comments else {}
    kinds |= {"help texts": help_texts()} if options.help_texts else {}
    faults = [fault for kind, sources in kinds.items() for fault in above_limits(kind, sources)]
    for kind, everything in kinds.items():
        sources = {name: texts for name, texts in everything.items() if options.only in name}
        if options.list:
            listing(sources, options.list)
        elif options.sample:
            sample(sources, options.sample)
        elif not options.check:
            show(kind, sources)
    if options.check:
        print("\n".join(faults) or "every figure is within its limit")
    return int(options.check and bool(faults))


if __name__ == "__main__":
    sys.exit(main())
