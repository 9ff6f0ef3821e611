"""A heuristic over a list of verb forms: does an English sentence have a main clause? It is not a parser.

A finite verb belongs to the last subordinate clause that has begun and has no verb yet. A sentence whose finite verbs
all belong to subordinate clauses has no main clause. Words that are verbs and nouns alike are judged by the word before
them. CONTRIBUTING, "Language", says how often the heuristic is right.
"""

from __future__ import annotations

import re


def _set(text: str) -> set[str]:
    return set(text.split())


AUXILIARIES = _set(
    "is are was were am has have had does do did can cannot could may might must shall should will would need needs "
    "isn't aren't doesn't don't can't won't"
)
BASES = _set(
    "become pickle lay minimise maximise spin spill scatter advance submit enrol adjust cease distinguish "
    "escape mention "
    "accept account adapt add aggregate agree align allocate allow answer appear apply appoint arrive ask assume "
    "average avoid balance begin belong bound bring build bundle cache calculate call cancel carry cast cause change "
    "charge check choose cite claim clip close collect combine come commit compare compile compress compute concern "
    "configure connect consider consist contain continue contradict contribute convert copy correspond cost count "
    "cover crash create cross cut decay decide declare decode decrease default define deliver depend derive describe "
    "detect determine differ discard divide divide document double download draw drop duplicate embed enable encode "
    "end enforce ensure enter equal estimate evaluate exceed except execute exist exit expand expect expire explain "
    "export express extend extract fail fall feed fetch fill find finish fit fix flow follow forbid forge freeze "
    "gather generate get give go grow guarantee halve handle hang happen help hide hold identify ignore implement "
    "import improve include increase index infer inherit initialise insert install interpret introduce iterate join "
    "judge keep kill know lack last lead learn leave let lie limit link list listen live load lock look lose lower "
    "make map mark match matter mean measure meet merge miss mix mount move multiply name notice number obtain occupy "
    "occur offer omit open order overwrite own pack pad pair parse partition pass pay permit persist pick place point "
    "prevent print process produce profit promise propose prove provide prune pull push put raise reach react read "
    "receive recommend recompute reconnect record recover reduce refer refuse register reject rely remain remember "
    "remove repeat replace replay reply report represent reproduce request require reserve reset resist resolve rest "
    "restart resume retry return reverse rewrite rise round run sample save say scale schedule search see seem select "
    "send separate serve set share shift shorten show shrink shut sign simulate sink sit skip slice solve sort speak "
    "specify spend split spoil stand start state stay stop store stream subtract suffice suit sum support suppose "
    "survive take talk tell tend test think throw time touch trace track train transfer transmit travel treat try "
    "turn unpack update upload use vanish vary verify visit wait wake want warn waste weigh win work wrap write yield "
    "zero belong behave benefit borrow break bypass catch clear delete diverge drift emit "
    "establish experience fuse grant guess hash hear hurt imply inspect interrupt invent issue negotiate normalise "
    "observe operate outlive outnumber overlap perform plot poison poll possess prefer present press protect quantise "
    "query quote rebuild reconstruct redirect remind rename render reuse seed simplify slow spare standardise stretch "
    "strip suggest surpass switch terminate tolerate translate trust understand undo unfreeze validate violate walk "
    "wish withhold aim approach attend back beat buy complete conclude confirm consume correct demand deny deploy "
    "destroy disagree disappear eat enlarge exchange fork free gain hit host import lend lift maintain name "
    "note outweigh plan play prepare preserve publish rank rate recognise reflect regard regenerate release represent "
    "fine-tune restrict retain reveal roll rule satisfy score settle signal span spread squeeze stem step succeed "
    "supply surprise sync synchronise unite want worsen answer map model mask mirror"
)
IRREGULAR = _set(
    "became began bound bought brought broke built came chose cost cut did drew fell found gave got grew held kept "
    "knew lay led left lost made meant met paid put ran read rose said sank sat saw sent set showed spent split stood "
    "stopped took told took thought threw tried went won wrote hit let hurt lies ties dies goes does tries"
)
NOUNS_TOO = _set(
    # forms that are verbs only where nothing before makes a noun of them
    "accounts answers averages balances bounds caches calls changes charges checks claims clips costs counts cuts "
    "defaults draws drops ends estimates fits files flows gains hashes helps index indexes lasts limits links lists "
    "loads locks maps marks masks matches means measures mirrors mixes models moves names notes notices numbers "
    "offers orders packs pairs parses partitions passes places plans plays plots points polls prints processes "
    "promises queries ranks rates reads records releases replays replies reports requests results returns rises "
    "rolls rounds rows rules runs samples saves scales schedules scores searches seeds sets shares shifts shows "
    "signals slices sorts spans splits spreads stands starts states steps streams sums supports switches tests "
    "times touches traces tracks trains transfers turns updates uses values walks works writes"
)
BEFORE_NOUN = _set(
    "a an the this these those its their his her my your our all each every no some any few many most other "
    "one of in on at by for from with without to into over per between among as than two three four five six several "
    "same different first last next own local global new old and or"
)
NO_SUBJECT = AUXILIARIES | _set("to not be been being and or as has by than it's")
PREPOSITIONS = _set("in for of at by with on from to into under after before until below above about")
PLURALS = _set("code they we you people those")
ADVERBS = _set("never always also often usually still then only really hardly just thus therefore therein ever")
ADJECTIVES = _set("own open free clear slow lower last correct present separate complete double zero live close")
ADJECTIVES |= _set("level prefix need use rest cost matter wrap batch import export seed root worsen")
DATA = 6  # a line with at least so many numbers is data and not a sentence
CLAUSES = _set("that which who when where while whereas because if unless until though although whether what")
CLAUSES |= _set("whatever whoever wherever how why whose whom")


def _third(verb: str) -> str:
    if re.search(r"(s|x|z|ch|sh|o)$", verb):
        return verb + "es"
    return verb[:-1] + "ies" if re.search(r"[^aeiou]y$", verb) else verb + "s"


def _past(verb: str) -> str:
    if verb.endswith("e"):
        return verb + "d"
    return verb[:-1] + "ied" if re.search(r"[^aeiou]y$", verb) else verb + "ed"


THIRDS = {_third(verb) for verb in BASES}
PASTS = {_past(verb) for verb in BASES} | {"stopped", "dropped", "planned", "permitted"}


def words(sentence: str) -> list[str]:
    return re.findall(r"[A-Za-z][\w'-]*|\d[\w.,%]*|[,;:()]", sentence)


def has_main_clause(sentence: str) -> bool:
    """Return whether a finite verb is left when every subordinate clause has taken one. Commands and lines of data
    pass.
    """
    tokens = words(sentence)
    lower = [token.lower() for token in tokens]
    if not lower or _commands(lower) or sum(token[0].isdigit() for token in lower) >= DATA:
        return True
    open_clauses = 0
    for place, token in enumerate(lower):
        before = next((each for each in reversed(lower[:place]) if each not in ",()" and each not in ADVERBS), "")
        if token == "until" and lower[place + 1 : place + 2] == ["then"]:
            continue
        if token in CLAUSES and not (token == "that" and (place == 0 or before in PREPOSITIONS)):
            open_clauses += 1
        elif _is_finite(token, before, lower[place + 1 : place + 2], tokens[place]):
            if open_clauses == 0:
                return True
            open_clauses -= 1
    return False


def _commands(lower: list[str]) -> bool:
    """Return whether there is an imperative at the beginning, or after a phrase and a comma or a colon."""
    starts = [0, *(place + 1 for place, token in enumerate(lower[:14]) if token in (",", ":", ";"))]
    firsts = [lower[start] for start in starts if start < len(lower)]
    if firsts[0] in ("then", "therefore", "so", "please", "there", "first", "always", "never"):
        firsts[0] = lower[min(1, len(lower) - 1)]
    if firsts[0] in ("raises", "returns", "yields"):
        return True
    noun = _third(firsts[0]) in NOUNS_TOO and lower[1:2] in (["of"], ["and"], ["or"], [","])
    first = firsts[0] in BASES and not noun
    plain = {each for each in firsts[1:2] if each in BASES and _third(each) not in NOUNS_TOO and each not in ADJECTIVES}
    purpose = firsts[0] in ("to", "for", "in", "if", "where") and bool(BASES & set(firsts[1:2]))
    return first or purpose or bool(plain)


def _is_finite(token: str, before: str, after: list[str], written: str) -> bool:
    """Return whether a word is a finite verb, judged by the words around it."""
    if token in AUXILIARIES:
        return True
    if not before or written[0].isupper() or before.endswith("'s"):
        return False
    if token in THIRDS:
        return not (token in NOUNS_TOO and before in BEFORE_NOUN)
    if before in NO_SUBJECT:
        return False
    if token in IRREGULAR:
        return before not in BEFORE_NOUN
    if token in BASES:
        if before in ("that", "who", "which"):
            return True
        plural = (re.search(r"[^']s$", before) and before not in THIRDS) or before in PLURALS
        return bool(plural) or (
            _third(token) not in NOUNS_TOO and token not in ADJECTIVES and before not in BEFORE_NOUN
        )
    return token in PASTS and before not in BEFORE_NOUN and after[:1] not in (["by"], ["with"], ["from"])
