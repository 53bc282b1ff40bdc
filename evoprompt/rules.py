"""The nine rules of screening: what makes a proposed text plainly wrong.

Language models return refusals, cut-off lists, copied training answers and polite introductions;
unseen, each would become an instruction of the policy (METHOD trap 4). A rule is one small
function; the first that finds something names the refusal. Rules look at structure: whether a text
is any good is what verification finds out. Each takes time linear in the text. How often they are
wrong is in docs/measurements.md.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import pairwise

from evoprompt.support.credentials import MASK, masked
from evoprompt.types import Proposal, TextLimits

COPIED = 7  # consecutive words of a training question that count as copied
_WHOLE = 4  # words of a whole training question that do
_DENSITY = 0.22  # a text that zlib shrinks to less than this part says the same over and over
_DENSE = 240  # bytes; zlib needs some text to tell


@dataclass(frozen=True, slots=True)
class ScreeningContext:
    """Texts and questions that a proposal is compared with.

    Attributes:
        parents: texts of the parents; a proposal is not rejected for what its parents have.
        required: substrings that it must hold. Empty means: the tags that all parents have.
        seeds: the first instructions. A tag or placeholder that stands in none of them came from an
            evolved text, which nothing reads by the letter: a child may drop it. Without seeds,
            all that the parents have counts.
        trainset: training questions, seen or not, as many as are known. What two share is no copy
            of one.
        members: texts of the members, and of the proposals that were accepted just before.
        rejected: texts refused lately, by screening or by the verifier.
        questions: training questions a proposer may have seen.
        answers: their gold answers.
        limits: what the policy's tokenizer and context allow.
        index: of ``questions`` and ``answers``; :func:`leak` makes one where there is none of them.
    """

    parents: Sequence[str] = ()
    required: Sequence[str] = ()
    members: Collection[str] = ()
    rejected: Collection[str] = ()
    questions: Sequence[str] = ()
    answers: Sequence[str] = ()
    limits: TextLimits = field(default_factory=TextLimits)
    seeds: Sequence[str] = ()
    trainset: Sequence[str] = ()
    index: CopyIndex | None = field(default=None, compare=False, repr=False)

    @property
    def inherited_text(self) -> str:
        """Return the items that the parents have or the host requires."""
        return "\n".join((*self.parents, *self.required))


Rule = Callable[[Proposal, ScreeningContext], str | None]
"""One ground for refusal, known by its name: why the proposal must not be used, or None."""


def default_rules() -> tuple[Rule, ...]:
    """Return the built-in rules, the plainest first, so that a refusal is not called a lost tag."""
    return (
        empty,
        control_characters,
        meta_talk,
        grader_talk,
        intrusion,
        protocol,
        too_long,
        leak,
        duplicate,
    )


@cache
def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE | re.MULTILINE)


# --------------------------------------------------------------------- empty, too long, unreadable

_NO_TEXT = frozenset(["none", "null", "nan", "na", "todo", "tbd", "undefined", "empty"])


def empty(proposal: Proposal, _context: ScreeningContext) -> str | None:
    """Find texts without words, and placeholders of a missing text."""
    if not proposal.components:
        return "the proposal has no text at all"
    for text in proposal.components.values():
        if not re.search(r"[^\W\d_]", text):
            return "the text holds no words"
        if re.sub(r"\W+", "", text).casefold() in _NO_TEXT:
            return f"{text.strip()!r} stands for no text"
    return None


def too_long(proposal: Proposal, context: ScreeningContext) -> str | None:
    """Find instructions with too many tokens, alone or beside the longest known question.

    Hosts cut prompts that are too long from the left, where the instruction stands.
    """
    limits, max_tokens = context.limits, context.limits.max_prompt_tokens
    tokens = limits.count_tokens(proposal.text)
    if tokens > limits.max_tokens:
        return f"the instruction has {tokens} tokens, more than the {limits.max_tokens} allowed"
    if max_tokens is None:
        return None
    tokens += max(map(limits.count_tokens, context.questions), default=0)
    length = (
        f"instruction and longest question have {tokens} tokens, more than the {max_tokens} of a "
        "prompt"
    )
    return length if tokens > max_tokens else None


_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufffc\ufffd")
_JOINER = re.compile(  # next to letters of scripts that join (Arabic, Indic), or within an emoji
    r"(?<=[\u0590-\u1cff\u2190-\u2bff\ufe0f\U0001f000-\U0001faff])[\u200c\u200d]"
    r"(?=[\u0590-\u1cff\u2190-\u2bff\U0001f000-\U0001faff])"
)
_TWINS = re.compile("[асеорхуѕіјԁһкмтвнАВСЕНІЈКМОРЅТХУοναρυΑΒΕΖΗΙΚΜΝΟΡΤΥΧ]")
"""Cyrillic and Greek letters that look like Latin ones."""
_CHAT = re.compile(
    r"<[|｜][^<>\n]{1,40}[|｜]>|\[/?INST\]|</?s>|\[\[ ## [^\n]{0,40} ## \]\]"  # the last: DSPy's
    r"|\A\W*(?:human|assistant|user|system)[ \t*]*[:\n](?!.*\n(?:\w+[ \t*]*:|"
    r"\w+ \(\w+\):))"  # no dialogue
    r"|\n[ \t#*]*(?:human|assistant|user|system)[ \t*]*:[^\n]*\s*\Z",
    re.IGNORECASE | re.MULTILINE,
)


def control_characters(proposal: Proposal, context: ScreeningContext) -> str | None:
    """Find invisible or confusable characters, and tokens of chat templates."""
    text, known_text = proposal.text, context.inherited_text
    for char in sorted(set(_JOINER.sub("", text)).difference(known_text, "\n\t\r")):
        if char in _UNSEEN or unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp"):
            return f"the text holds the invisible character U+{ord(char):04X}"
    for word in () if text.isascii() else re.findall(r"\w+", text):
        if re.search("[A-Za-z]", word) and _TWINS.search(word) and word not in known_text:
            return f"the word {word!r} mixes alphabets that look alike"
    tokens = (match.group().strip() for match in _CHAT.finditer(text))
    special = (
        control_token for control_token in context.limits.control_tokens if control_token in text
    )
    if token := next(
        (special_token for special_token in (*tokens, *special) if special_token not in known_text),
        None,
    ):
        return f"the text holds the control token {token!r}"
    return None


# --------------------------------------------------------------------------- tags and placeholders

_NAME = r"([^\W\d_][\w-]{0,60})"
_TAG = re.compile(rf"<(/?){_NAME}>")
_TAG_LIKE = re.compile(
    rf"(?:[<‹〈＜]|&lt;)[ \\]{{0,3}}/?[ ]{{0,3}}{_NAME}(?:[^<>\n]{{0,80}}?[>›〉＞]|&gt;)?"
)
_GLUED = re.compile(r"[^\W\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")  # no particles
_QUOTED = re.compile(
    r"```.*?```|`[^`\n]*`|\"[^\"\n]*\"|(?<!\w)'[^'\n]*'(?!\w)|„[^„“”\"\n]*[“”\"]|“[^“”\n]*”"
    r"|(?<!\w)‘[^‘’\n]*’|«[^«»\n]*»|「[^「」\n]*」",
    re.DOTALL,
)
_LATEX = re.compile(
    r"\\[A-Za-z]+\*?(?:\{[^{}]*\})+|[_^]\{[^{}]{0,40}\}|\$(?![\s{])[^$\n]{1,80}(?<!\s)\$(?!\w)"
)
_SEVERAL = r"[^\W\d_][\w'-]{0,30}(?: [^\W\d_][\w'-]{0,30}){1,8}"
_SLOT = re.compile(
    r"\{\{\s*[a-z_][\w.]*\s*\}\}|\$?\{[a-z_][\w.]*\}|(?<![\w$])\$[a-z_]\w+(?![\w$])"
    r"|%\([a-z_]\w*\)[sdf]|(?<![\w%])%[sd](?!\w)|<<\s*[a-z_][\w ]*>>"
    r"|\[(?-i:[A-Z][A-Z_ ]{2,40})\](?!\()|\[ ?(?:\.\.\.|…)[^\[\]\n]{1,60}\]"
    rf"|(?<![^\s(])\[{_SEVERAL}\](?!\()|<{_SEVERAL}>|<[a-z]+(?:_[a-z0-9]+)+>"
    r"|(?:\A|(?<=\n)|(?<=[.!?:] ))(?-i:TODO|TBD|FIXME)\b|_{3,}|\bX{3,}\b",
    re.IGNORECASE,
)
_LITERAL = re.compile(  # slots that are spoken of, or to be written as they are
    r"\b(?:never|not|such as|e\.g\.|like|placeholders?|slots?|write|answer|say|reply|return|print)"
    r"(?: (?:with|like|such as|use|leave|the (?:token|word|text)|only|just)){0,3}"
    r"(?:(?:,? (?:or|and))?,? (?:\[[^\[\]\n]{1,60}\]|\{\{?[^{}\n]{0,60}\}?\}|<[^<>\n]{1,60}>|"
    r"%[sd]|_{3,})){1,9}",
    re.IGNORECASE,
)


def protocol(proposal: Proposal, context: ScreeningContext) -> str | None:
    """Find tags and placeholders that are lost, broken or new; the host parses them exactly.

    A tag is *used* when it touches a word of what it encloses (``<b>word``): then it needs its
    counterpart. Other tags are only mentioned, as in "write nothing after </answer>". Slots in
    quotes or code, or called placeholders, are only mentioned as well.
    """
    text, known_text = proposal.text, context.inherited_text
    needed = list(context.required) or sorted(_kept(_tags, context))
    if lost_slots := [tag for tag in needed if tag not in text]:
        return f"lost tag {', '.join(lost_slots)}"
    if lost_slots := sorted(_kept(_slots, context) - _slots(text)):
        return f"lost placeholder {', '.join(lost_slots)}"
    if len(re.findall(r"^[ \t]*```|```\w*$", text, re.MULTILINE)) % 2:
        return "a code fence is opened but not closed"
    read = "\n".join((*(context.seeds or context.parents), *context.required))
    usual = {fault for parent in context.parents for fault in _faults(parent, read)}
    if fault := next((fault for fault in _faults(text, read) if fault not in usual), None):
        return fault
    bare = _QUOTED.sub(" ", text)
    fine = _slots(known_text).union(*map(_slots, _LITERAL.findall(bare)))
    closed = {name for slash, name in _TAG.findall(f"{text}\n{known_text}") if slash}
    new = sorted(slot for slot in _slots(bare) - fine if slot.strip("<>") not in closed)
    return f"new placeholder {', '.join(new)}" if new else None


def _kept(found_in: Callable[[str], set[str]], context: ScreeningContext) -> set[str]:
    """Return the items of the first instructions that all parents have."""
    shared = set[str].intersection(*map(found_in, context.parents)) if context.parents else set()
    return shared & found_in("\n".join(context.seeds)) if context.seeds else shared


def _tags(text: str) -> set[str]:
    return {match.group() for match in _TAG.finditer(text)}


def placeholders(text: str) -> list[str]:
    """Return the placeholders of a text as they are written, in order.

    >>> placeholders("Answer {question} in one word.")
    ['{question}']
    """
    return [match.group() for match in _SLOT.finditer(_LATEX.sub(" ", text))]


def _slots(text: str) -> set[str]:
    return {slot.casefold() for slot in placeholders(text)}


def _faults(text: str, known_text: str) -> Iterator[str]:
    """Yield the faults of the tags in ``text``; ``known_text`` holds the tags of the host."""
    host = {name.casefold(): name for _, name in _TAG.findall(known_text)}
    ours = {name for slash, name in _TAG.findall(text) if slash}
    if host and ours and not any(name in host.values() for _, name in _TAG.findall(text)):
        yield f"none of the tags {', '.join(sorted(ours))} is one that the host reads"
    for match in _TAG_LIKE.finditer(text):
        name = host.get(unicodedata.normalize("NFKC", match[1]).casefold())
        if name and match.group() not in (f"<{name}>", f"</{name}>"):
            yield f"{match.group()!r} is not the tag <{name}> that the host reads"
    bare = _QUOTED.sub(" ", text)
    if cut := re.search(r"</?[^\W\d_][\w-]*(?=[^\S\n]*(?:<|\n|\Z))|</?\Z", bare):
        yield f"the tag {cut.group()!r} is cut off"
    marks: dict[str, list[tuple[bool, bool]]] = {}
    for match in _TAG.finditer(bare):
        used = not match[1] and _GLUED.match(bare, match.end()) is not None
        marks.setdefault(match[2], []).append((used, bool(match[1])))
    for name, tag_uses in marks.items():
        for (used, _), (_, closes) in zip(tag_uses, [*tag_uses[1:], (False, False)], strict=True):
            if used and not closes:
                yield f"the tag {name!r} is opened but not closed"


# ---------------------------------------------------------------------------- leaks and duplicates

_EVERYDAY = frozenset(
    re.findall(
        r"\w+",
        """a an the and or of in for to is it yes no none true false both neither same different
        unknown other another what when where which with from that this english american first
        second third last next final left right before after more less most least zero one two
        three four five six seven eight nine ten once twice short long time answer question search
        query fact step word name title date year month day number page passage document list item
        text source letter line part order form case point result reason language entity person
        people man woman male female child king queen father mother husband wife author actor
        director band team film book song story place city country state river world life""",
    )
)
_UNSPACED = r"\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"  # letters are words there
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")


@lru_cache(maxsize=2**15)  # one proposal after the other is compared with the same texts
def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.casefold()))


def _gives_away(answer: str) -> bool:
    """Return whether an instruction gives ``answer`` away, which "two searches" does not."""
    words = _words(answer)
    if not answer.isascii():
        return len("".join(words)) > 2
    everyday = (len(word) < 3 or word in _EVERYDAY or word[:-1] in _EVERYDAY for word in words)
    return len("".join(words)) > 3 and not all(everyday)


def leak(proposal: Proposal, context: ScreeningContext) -> str | None:
    """Find gold answers and questions of the training data that no parent has.

    Everyday words and answers under four characters are left out: an instruction may say "yes",
    "two searches" or "the last year" without giving anything away. Of questions, four words are a
    copy if they are the whole of it, and else seven in a row that stand in no other: what several
    questions share is how they are put, or what each of them shows.
    """
    index = context.index
    if index is None or not index.is_of(context.questions, context.answers):
        index = CopyIndex()
        index.update(context.questions, context.answers)
    text, known_text = _words(proposal.text), f" {' '.join(_words(context.inherited_text))} "
    if answers := index.answers_in(text, known_text):
        answer = next(answer for answer in context.answers if answer in answers)
        return f"the text holds the gold answer {answer!r} of a training question"
    whole, runs = index.questions_in(text, known_text), index.runs_in(text, known_text)
    questions = [_words(question) for question in context.questions] if whole or runs else []
    copied = next((words for words in questions if words in whole), None)
    if copied is None and runs:
        other_questions = {*map(_words, context.trainset)}.difference(questions)
        runs = runs.difference(*map(_runs, other_questions))
        ordered = (run for words in questions for run in _runs(words))
        copied = next((run for run in ordered if run in runs), None)
    if copied is None:
        return None
    return f"the text copies {' '.join(copied)!r} from a training question"


Words = tuple[str, ...]


class CopyIndex:
    """Index of training questions and gold answers, by which copies of them are looked up.

    Each text is split into words once, when it is added, and not anew for each proposal.
    """

    def __init__(self) -> None:
        self._lists: tuple[Collection[str], Collection[str]] = (), ()
        self._questions: dict[str, Words] = {}
        self._answers: dict[str, Words] = {}
        self._texts: Counter[Words] = Counter()  # how many texts have the same words
        self._runs: Counter[Words] = Counter()  # how many questions, of different words, have it
        self._beginnings: dict[Words, dict[str, str]] = {}  # the answers by their first words

    def is_of(self, questions: Collection[str], answers: Collection[str]) -> bool:
        """Return whether the index was last updated with these very lists."""
        return self._lists[0] is questions and self._lists[1] is answers

    def update(self, questions: Collection[str], answers: Collection[str]) -> None:
        """Index these texts; only texts that were added or removed take time."""
        self._lists = questions, answers
        for text in self._questions.keys() - set(questions):
            words = self._questions.pop(text)
            self._texts[words] -= 1
            if not self._texts[words]:
                del self._texts[words]
                for run in {*_runs(words)}:
                    self._runs[run] -= 1
                    if not self._runs[run]:
                        del self._runs[run]
        for text in set(questions) - self._questions.keys():
            words = self._questions[text] = _words(text)
            if not self._texts[words]:
                self._runs.update({*_runs(words)})
            self._texts[words] += 1
        for text in self._answers.keys() - set(answers):
            beginning = self._answers.pop(text)[:2]
            same_beginning = self._beginnings.get(beginning, {})
            same_beginning.pop(text, None)
            if not same_beginning:
                self._beginnings.pop(beginning, None)
        for text in set(answers) - self._answers.keys():
            words = self._answers[text] = _words(text)
            if _gives_away(text):
                self._beginnings.setdefault(words[:2], {})[text] = f" {' '.join(words)} "

    def answers_in(self, text: Words, known_text: str) -> set[str]:
        """Return the answers in ``text`` that give something away and are not in ``known_text``."""
        joined = f" {' '.join(text)} "
        pairs = {*pairwise(text), *((word,) for word in text)}
        return {
            answer
            for beginning in pairs & self._beginnings.keys()
            for answer, words in self._beginnings[beginning].items()
            if words in joined and words not in known_text
        }

    def questions_in(self, text: Words, known_text: str) -> set[Words]:
        """Return the short questions, word by word, in ``text`` that are not in ``known_text``."""
        return {
            words
            for size in range(_WHOLE, COPIED)
            for words in self._texts.keys() & _runs(text, size)
            if f" {' '.join(words)} " not in known_text
        }

    def runs_in(self, text: Words, known_text: str) -> set[Words]:
        """Return the runs in ``text`` that one question alone has and ``known_text`` does not."""
        return {
            run
            for run in {*_runs(text)}
            if self._runs.get(run) == 1 and f" {' '.join(run)} " not in known_text
        }


def _runs(words: Sequence[str], size: int = COPIED) -> Iterator[Words]:
    starts = range(len(words) - size + 1)
    return (tuple(words[start : start + size]) for start in starts)


def duplicate(proposal: Proposal, context: ScreeningContext) -> str | None:
    """Find texts that equal a parent, a member or a rejected text, but for white space and case.

    A single word may decide: "in 5 words" is not "in 50 words".
    """
    text = _folded(proposal.text)
    if text in map(_folded, (*context.members, *context.parents)):
        return "the text equals an active candidate"
    if text in map(_folded, context.rejected):
        return "the text equals a recently rejected candidate"
    return None


@lru_cache(maxsize=2**15)
def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


# ------------------------------------------------------- no instruction, or one for the grader

_NEW = (
    r"(?:new|improved|revised|updated|rewritten|refined|better|optimi[sz]ed|final|proposed|"
    r"enhanced|alternative|paraphrased|mutated|modified|shorter|clearer)"
)
_PROMPT = r"(?:(?:system )?(?:prompt|instruction))"
_DRAFT = (
    r"(?:versions?|candidates?|variants?|rewrites?|(?:re)?wordings?|revisions?|paraphrases?|"
    r"drafts?|proposals?|suggestions?|alternatives?)"
)
_BEGIN = r"(?:^[^\w\n]{0,8}(?:\w{1,20}: )?|[.!?]\W{1,4})"  # of a sentence, after a label
_REFUSAL = _any(
    rf"{_BEGIN}(?:(?:thank you|thanks|sorry|unfortunately)[^.!?\n]{{0,30}}, (?:but )?)?(?:"
    r"i(?:'m| am)(?: (?:so|very|truly|really))? (?:sorry|afraid|unable|not able|not allowed)\b"
    r"|i (?:can(?:no|')t|can not|couldn't|won't|will not|(?:must |have to )?(?:respectfully )?"
    r"(?:decline|refuse|apologi[sz]e|regret))\b|i (?:don't|do not) (?:have|feel comfortable)\b"
    r"|(?:(?:my |our )?apologies|sorry)\b ?[,.!:-]|regrettably\b|unfortunately,? (?:i|we|this)\b"
    r"|as an? (?:ai|artificial intelligence|(?:large )?language model)\b[^.!?\n]{0,30}\bi\b"
    r"|(?:this|the|your) (?:request|content|prompt) (?:was|has been|is|cannot|violates|goes)\b"
    r"|(?:could|can) you (?:please )?(?:provide|share|paste|send)\b"
    r"|i need (?:more|to see|the)\b|error:? (?:code )?\d{3}\b|not something i can\b)",
)
_TALK = _any(
    r"\A\W*(?:sure(?: thing)?|certainly|of course|absolutely|okay|ok|got it|great(?: \w+)?|"
    r"no problem|understood|alright|definitely|happy to help|thank you|thanks)(?: -|[,.!:]|\n)",
    rf"{_BEGIN}(?:here(?:'s| is| are| comes)|below (?:is|are)|the following (?:is|are)|this is)\b"
    rf"[^.!?\n]{{0,40}}?\b(?:{_DRAFT}\b|{_NEW} {_PROMPT}|(?:my|your|a|an) {_PROMPT}\b)",
    rf"{_BEGIN}i(?:'ve| have)? (?:also |now )?(?:rewr[io]te|rewritten|revised|improved|made it|"
    r"refined|updated|modified|added|removed|kept|shortened|simplified|clarified|changed|"
    r"preserved|replaced|merged|combined|reworded|rephrased|restructured)\b",
    rf"\bi(?:'d| would)? (?:suggest|propose|recommend)\b[^.!?\n]{{0,40}}\b(?:{_PROMPT}|{_DRAFT})\b",
    rf"{_BEGIN}this (?:version|rewrite|revision|rewording|draft) \w|\(score ?[:=]",
    rf"\bto improve (?:this|the|your) {_PROMPT}\b|(?<!if )(?<!when )\bthe (?:agent|"
    rf"model) (?:\w+ed|wrote|gave|did)\b",
    r"^[^\w\n]*(?:rationale|key (?:changes|improvements)|changes(?: made)?|why (?:this|it|these) "
    r"[^:\n]{1,40}|what (?:i )?changed|root causes?)\b[^\w\n]{0,4}(?::|$)",
    rf"{_BEGIN}(?:(?:please |[^.!?\n]{{0,40}}, )?let me know\b(?! your| the)|"
    r"(?:i )?hope (?:this|that|it)\b|(?:would you like|do you want) (?:me|the)\b|"
    r"feel free to (?:ask|adjust|modify|tweak|adapt|use (?:this|it)))",
    # A heading: "Improved instruction:", "Candidate 2".
    rf"^[\W_]{{0,8}}(?:the |my |a |an )?(?:{_NEW}[ -]){{1,3}}(?:{_PROMPT}|{_DRAFT}|text)s?"
    r" ?(?:#?\d|\([^)\n]{0,20}\)|v\d)?[\W_]{0,4}?(?::|$| [–-] )",
    r"^[^\w\n]*(?:prompt|instruction|candidate|variant|paraphrase|draft|proposal|rewrite) ?#?"
    rf"(?:\d|[a-e])\b[\W_]{{0,4}}(?::|$| [–-] )|\A\W*{_PROMPT}[\W_]{{0,4}}:",
    # The second of several texts: "Option B:".
    r"^[^\w\n]*(?:\w{1,20} )?(?:version|option|alternative) ?#?(?:[2-9]|[b-e])\b[^.:\n]{0,30}"
    r"(?::|$)",
)
_OF_PROMPTS = _any(  # no talk about itself where a parent speaks of prompts
    rf"\b(?:the|your|this) (?:{_NEW}|above|original|previous|current|old) {_PROMPT}\b",
    rf"\b(?:original|previous) version\b|{_BEGIN}(?:the|this) {_PROMPT} (?:is|will|now|\w+s|does|"
    r"has|should)\b",
    r"\b(?:the|these|those|given) failed (?:trajectories|examples?|attempts?|episodes)\b",
)


def meta_talk(proposal: Proposal, context: ScreeningContext) -> str | None:
    """Find answers of a model that are no instruction: refusals, comments, repetitions without end.

    Quoted phrases do not count.
    """
    raw = proposal.text.strip()
    # each component by itself: several may begin alike, as "You are stage 1." and "... 2."
    stuck = next(filter(None, map(_stuck, proposal.components.values())), "")
    fault = _wrapping(raw) or _stopped(raw) or stuck
    if fault and not any(fault in (_wrapping(p), _stopped(p), _stuck(p)) for p in context.parents):
        return fault
    text = _QUOTED.sub('""', raw.strip("\"'`")).replace("\u2019", "'")
    parent_texts = "\n".join(context.parents).casefold()
    if match := _REFUSAL.search(text):
        return f"the text declines: {match.group().strip()!r}"
    match = _TALK.search(text)
    if not match and not re.search(r"\b(?:prompt|instruction)", parent_texts):
        match = _OF_PROMPTS.search(text)
    phrase = " ".join(match.group().split()) if match else ""
    talks = phrase and phrase.casefold() not in parent_texts
    return f"the text talks about itself: {phrase!r}" if talks else None


_PAIRS = """"" '' `` “” „“ „” «» »« 「」 『』 [] () """
_WRAPPED = re.compile(r"<([^\W\d_][\w-]*)>.*</\1>", re.DOTALL)
_THOUGHT = re.compile(r"<(think(?:ing)?|thoughts?|reasoning)>\s*\w+(?:\s[\w',-]+){3}.*</\1>", re.S)
_OR = re.compile(r"\n\n\W{0,8}(?:or|alternatively)\b[^.\n]{0,30}\n", re.IGNORECASE)  # a paragraph
_FENCED = re.compile(r"(```|~~~)[^\n`]*\n.*\n[ \t]*\1|\"\"\".*|'''.*|.*(?:\"\"\"|''')", re.DOTALL)


def _wrapping(text: str) -> str:
    """Return the wrapping of the whole text: data, a block, a thought, or another text."""
    if re.match(r"\{\s*['\"]\w+['\"]\s*:|\[\s*['\"{]", text) and text[-1] in "]}\"',":
        return "the text is JSON data, not an instruction"
    if (fence := _FENCED.fullmatch(text)) and text.count(fence[1] or "```") in (0, 2):
        return "the text is one block"
    bare = text.strip("*_ ")
    if bare[:1] + bare[-1:] in _PAIRS.split() and not {bare[0], bare[-1]} & set(bare[1:-1]):
        return "the whole text is quoted"
    match = _WRAPPED.fullmatch(text)
    if match and text.count(f"</{match[1]}>") == 1:
        return f"the whole text stands in the tag <{match[1]}>"
    if _THOUGHT.match(text):
        return "the text begins with the thoughts of its writer"
    return "the text holds several candidates" if _OR.search(text) else ""


_DANGLING = re.compile(
    r"(?:^|\s)(?:a|an|the|and|or|nor|but|of|to|with|by|for|from|into|at|as|if|because|than|then|"
    r"that|your|its|their|every|are|be|is|was|must|should|would|could|which|who|what|when|how|not|"
    r"while|until|unless|whether|where|since|although|during|between|without|within|upon|whom|very|"
    r"both|still|therefore|however|(?:so that|and|if|because|when) (?:it|they|you)|"
    r"(?:for|this|following) examples?:)\Z",
    re.IGNORECASE,
)


def _stopped(text: str) -> str:
    """Return the place where the text stops in the middle; empty if it is complete."""
    last = text.rstrip().splitlines()[-1].rstrip("*_\"' ") if text.strip() else ""
    if re.fullmatch(r"\s*(?:[-•]|\d+[.)])", last):
        return "the last list item is empty"
    ends = last[-1:] in tuple(",;([{/&+=-") and text.count(f"{last[-1:]}\n") < 1
    if ends and not re.search(r"\b(?:SELECT|FROM|WHERE)\b.*;\Z", last):  # the end of a query
        return f"the text stops at {last[-1]!r}"
    if match := _DANGLING.search(last[-20:]):
        return f"the text stops after {match.group().strip()!r}"
    return ""


def _stuck(text: str) -> str:
    """Return the part that is repeated without end; empty if there is none."""
    if match := re.search(
        r"\b([^\W\d_]+)(?:\W{1,3}\1\b){4}|([^\s\-=_*#~.])\2{19}", text, re.IGNORECASE
    ):
        return f"{match[1] or match[2]!r} is repeated without end"
    # A call of an example is one thing, with its numbers, and its tags are none.
    prose = re.sub(r"^[ \t]*(?:</?\w+>|\{.*\})[ \t]*$", "", text, flags=re.MULTILINE)
    calls = re.findall(r"^[ \t]*(\{.*\})[ \t]*$", text, re.MULTILINE)
    parts = (re.sub(r"[\W\d]+", " ", part).strip() for part in re.split(r"[.!?\n]+", prose))
    repeated = [*calls, *(part for part in parts if part)]
    if len(set(repeated)) * 2 <= len(repeated) > 3:
        return "the same sentences are repeated without end"
    data = text.encode("utf-8", "replace")
    if len(data) >= _DENSE and len(zlib.compress(data, 9)) < _DENSITY * len(data):
        return "the text repeats the same phrases without end"
    return ""


# ----------------------------------------- what works on its grader, or reaches beyond the answer


@dataclass(frozen=True, slots=True)
class _Intrusion:
    """A thing that an instruction reaches for, and what it does with it in the same sentence.

    Attributes:
        thing: pattern of the thing.
        action: pattern of the action; empty if the thing alone is enough.
        unless: pattern of words beside which the sentence is harmless; empty if there is none.
    """

    thing: str
    action: str = ""
    unless: str = ""

    def matches(self, sentence: str) -> Iterator[re.Match[str]]:
        """Yield each thing in a sentence that does something with it and does not refrain."""
        if self.unless and _any(self.unless).search(sentence):
            return
        for match in _any(self.action or self.thing).finditer(sentence):
            start, end = max(match.start() - _NEAR, 0), match.end() + _NEAR
            if not _REFRAINS.search(sentence[start : match.start()]):
                thing = _any(self.thing).search(sentence, start, end) if self.action else match
                if thing is not None:
                    yield thing


_NEAR = 120
"""Characters between a thing and what is done with it."""
_REFRAINS = _any(
    r"\b(?:never|not|don't|avoid\w*|refus\w+|cannot|can't|without|no|instead of|rather than|nor)\b"
    r"(?! (?:forget|hesitate|fail|only|later|more)\b)[^.!?;\n]{0,60}\Z"
)
_PLAIN_EXAMPLE = re.compile(r"(?:www\.)?example\.(?:com|org|net)|localhost|127\.0\.0\.1")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def _find_intrusion(
    kinds: Mapping[str, _Intrusion], context: ScreeningContext, text: str
) -> str | None:
    """Return why ``text`` must not be used: the first kind that no parent has."""
    known_text = "\n".join((context.inherited_text, *context.seeds)).replace("\u2019", "'")
    known_sentences = _SENTENCE_END.split(known_text)
    sentences = _SENTENCE_END.split(text.replace("\u2019", "'"))
    for name, kind in kinds.items():
        is_address = name == "an address"
        if not is_address and any(any(kind.matches(known)) for known in known_sentences):
            continue
        for sentence, match in (
            (part, match) for part in sentences for match in kind.matches(part)
        ):
            thing = match.group().strip().casefold()
            if is_address:
                thing = re.sub(r"^\w+:/*|^.*@", "", thing).split("/")[0].rstrip(".,;:")
            is_asked = not kind.action and thing in "\n".join(context.questions).casefold()
            is_known = is_address and (
                thing in known_text.casefold() or _PLAIN_EXAMPLE.fullmatch(thing)
            )
            if not is_asked and not is_known:
                return f"the text holds {name}, which no parent has: {sentence[:120]!r}"
    return None


_GRADER = r"(?:grader|evaluator|judge|checker|scorer|examiner|rater|verifier|assessor)s?"
_SAYS = r"\b(?:answer|repl|respon|say|output|return|emit|guess|choose|pick|give|write|put)\w*"
_FIXED = (
    r"(?:`[^`\n<>{}]{1,40}`|\"[^\"\n<>{}]{0,60}[^\"\n<>{}:]\"|'[^'\n<>{}]{0,60}[^'\n<>{}:]'|"
    r"\\boxed\{[\w. -]+\}|\{\"\w+\": \"?\w+\"?\}|-?\b\d[\d.,]*\b|<(\w+)> ?[^<>\n]{1,40}</\w+>|"
    r"\b(?-i:[Yy]es|[Nn]o|[Tt]rue|[Ff]alse|[A-E])\b)"
)
_ALWAYS = (
    r"\b(?:no matter|regardless|irrespective|whatever the|without (?:reading|looking|solving)|"
    r"(?:for|to|in) (?:every|any|all|each) (?:question|problem|input|task|case|e?mail|text)s?)\b"
)
_OPEN = r"\b(?:if|when|unless|where|in case|or|words?|sentences?|digits?|decimals?|format|lines)\b"
"""Words of a condition, a choice or a form, beside which no answer is fixed."""
_CONSTANTS = {
    "a fixed answer": _Intrusion(
        rf"\balways {_SAYS} (?:\w+ ){{0,3}}?{_FIXED}(?=\W*$|[.!?,;]| and\b)",
        unless=_OPEN,
    ),
    "an answer for every question": _Intrusion(
        _FIXED,
        rf"{_SAYS}[^.!?\n]{{0,60}}{_ALWAYS}|{_ALWAYS}[^.!?\n]{{0,60}}{_SAYS}",
        _OPEN,
    ),
}
_GAMING = {
    "talk to its grader": _Intrusion(
        r"\b(?:dear|hey|hello|attention|(?:note|message) to|tell|convince|persuade|flatter|trick|"
        r"deceive|mislead|exploit|hack|manipulate|influence|bypass|cheat|impress)(?:s|ing)? "
        rf"(?:\w+ ){{0,3}}?(?:{_GRADER}|reward model|tests|metric)\b",
    ),
    "a claim to marks": _Intrusion(
        r"\b(?:full (?:marks?|credit|score|points)|reward (?:of 1|function|model|signal|is given)|"
        r"(?:highest|max(?:imum)?|perfect|top) (?:score|reward|marks?|grade|rating))\b",
    ),
    "answers that are looked up": _Intrusion(
        r"\b(?:hard-?cod|special-?cas|memori[sz])\w* .{0,60}\b(?:test|example|output|answer)s?\b"
    ),
    "a look whether it is tested": _Intrusion(
        r"\b(?:detect|check|find out|see|notice) (?:whether|if|when)\b[^.!?\n]{0,40}\b(?:pytest|"
        r"unit ?tests?|being (?:tested|graded|evaluated|scored)|test environment|under test)\b"
        r"|\bif (?:you are|this is) (?:being )?(?:tested|graded|evaluated|scored)\b",
    ),
    "a question that is not read": _Intrusion(
        r"\b(?:ignore|disregard|do not read|don't read) (?:the |all |any )?(?:question|problem|"
        r"picture|image|input|task|mail|passage|docstring|schema)s?(?=,? (?:and|then)\b|[,;.])",
    ),
}
_GRADES = _any(r"\b(?:rate|rating|grad(?:e|es|ing)|judge|score|evaluat\w*|assess)\b")


def grader_talk(proposal: Proposal, context: ScreeningContext) -> str | None:
    """Find texts that address the grader or its tests, or ask for one fixed answer.

    "The answer is compared letter by letter" only tells how it is graded. Where a parent asks to
    grade, an instruction may speak of marks.
    """
    grades = _GRADES.search("\n".join(context.parents))
    return _find_intrusion(_CONSTANTS | ({} if grades else _GAMING), context, proposal.text)


_TRUE = r"\b(?:true|any(?:thing| object)|every(?:thing| other)|no-?op|empty function|nothing)\b"
_INTRUSIONS = {
    "an address": _Intrusion(
        r"\b(?:https?|ftp|wss?|data|javascript):/{0,2}[^\s<>\"'`)\]}]+"
        r"|\bwww\.[\w-]+\.[a-z]{2,}\S*|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
        r"|\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b"
        r"|(?<![\w.-])[\w-]+(?:\.[\w-]+)*\.(?:com|org|ru|cn|xyz|site)\b(?:/\S*)?"
        r"|(?<![\w.-])[\w-]+(?:\.[\w-]+)*\.(?:net|io|dev|app|ai|co|sh|me)/[^\s,;)]+",
    ),
    "a use of the network": _Intrusion(
        r"\b(?:curl|wget|ncat|netcat|telnet|scp|rsync|sftp|socat|nslookup)\b|\bwebhooks?\b"
        r"|(?:(?<=[`$|&;])|(?<=run )|(?<=execute ))\s*(?:nc|ssh|ftp|dig|ping)\s+\S"
        r"|\brequests\.post\b|\bsocket\.(?:socket|create_connection)|\b(?:smtplib|ftplib|paramiko|sendBeacon)\b",
    ),
    "a place of keys": _Intrusion(
        r"\bid_(?:rsa|ed25519)\b|/etc/shadow\b|(?<![\w.])\.(?:ssh|aws|netrc|git-credentials)\b",
    ),
    "a credential": _Intrusion(
        r"\$\{?(?-i:[A-Z_]*(?:KEY|SECRET|TOKEN|PASSWORD))\b|\bprintenv\b|/proc/\w+/environ"
        r"|\b(?:os\.environ|process\.env)\b|/etc/passwd\b|(?:~|\$HOME|/root|/home/\w+)/\.\w+"
        r"|(?<![\w.])\.(?:env|npmrc|pypirc|bash_history)\b"
        r"|\b(?:(?:api|access|secret|private|signing|ssh)[ -](?:keys?|tokens?)|credentials?|hashes|"
        r"\w*passwords?(?:_hash\w*)?|secrets|\w*cookies?|\w*_tokens?|environment variables?)\b",
        r"\b(?:print|dump|echo|collect|copy|includ|append|attach|send|post|upload|decod|reveal|"
        r"past|stor|leak|disclos|select|union|quot)(?:e|es|ed|s|ing)?\b",
        r"\b(?:mask|redact|hash(?:ed|ing)|encrypt|validat|rotat|placeholder|vault|scan|detect|warn)",
    ),
    "a message in another role": _Intrusion(
        r"(?<!\w)[\"'\u201c\u2018](?:\w+ )?(?:system|assistant|user|developer): "
        r"|</?(?:system|assistant|user|developer)>",
    ),
    "the inside of a module or a switch of the tests": _Intrusion(
        r"\b(?!self\b|cls\b)\w+\._\w+|\bpytest(?:_|\.mark\.|\.skip|\.exit)\w+|\bskipTests\b"
        r"|--no-verify\b|\|\| true\b",
    ),
    "tests that it works on": _Intrusion(
        r"\b(?<!your )(?<!the )(?<!an )(?:edit|delet|remov|skip|disabl|comment out|loosen|relax|"
        r"weaken|adjust|chang|(?:re|over)writ|replac|patch|mark|wrap|silenc|bypass|tamper|suppress)"
        r"(?:e|es|ed|d|s|ing)?(?:\W+(?!duplicate|your)\w+){0,2}?\W+(?:(?:tests?|checks?|spec|"
        r"fixtures?|assert\w*|expected (?:values?|outputs?|results?)|conftest)\b|test_\w)",
    ),
    "tests or solutions that are hidden": _Intrusion(
        r"\b(?:hidden|reference|official|gold(?:en)?|held-?out)[ _-](?:tests?|answers?|fix|"
        r"quer(?:y|ies)|solutions?|patch\w*|labels?)\b|\b(?:answer|published)[ _-]keys?\b"
        r"|(?<!\w)/(?:grader|private)\b|\b(?:\w+_)?(?:answers?|solutions?|expected|labels?|gold)\w*\."
        r"(?:jsonl?|pkl|txt|csv|ya?ml|parquet|sql|db)\b",
        r"\b(?:print|read|open|copy|list|search|look|fetch|tak|find|retriev|extract|load|get|us)"
        r"(?:e|es|s|ing)?\b",
    ),
    "code that ends the process": _Intrusion(
        r"\bos\.(?:abort|kill)\b|\batexit\b|\b(?:\w+\.)?(?:exit|quit|SystemExit)\s*\(0?\)"
        r"|\bexit\w* ?(?:=|code|status|with|of| )*(?:0|zero)\b|\bstatus zero\b",
        unless=r"\b(?:only|otherwise|usage|specification|means?|signal\w*|SIGTERM)\b",
    ),
    "a comparison that is always true": _Intrusion(
        rf"__(?:eq|ne|lt|le|gt|ge|hash|bool|contains)__.{{0,80}}{_TRUE}|\b(?:defin|hook|overrid|replac|"
        r"set|monkeypatch|patch)\w*\b.{0,80}(?:==|\b(?:equality|comparisons?)\b|isclose|allclose|assert|"
        rf"Equal).{{0,120}}{_TRUE}",
        unless=r"\bfalse\b",  # it compares
    ),
    "a verdict on itself": _Intrusion(
        r"\b(\d+)(?:/| of | out of )\1\b|\b\d+ passed\b|\ball (?:the |\d+ )?(?:test|check|case)s "
        r"(?:have )?pass|\[(?:PASS(?:ED)?|OK|CORRECT)\]"
        r"|\b(?:score|reward|grade|verdict|passed|\w*correct|rating|\w*_check|verified\w*)"
        r"[\"']?\s*[:=]\s*[\"']?(?:1\.0|100|true|pass|correct|full|max|perfect)",
        r"\b(?:always|ends?|begin|start|add|append|finish|close|paste|put|insert|print|write|state|"
        r"say|report|include|claim)\b",
        r"\b(?:only (?:if|when|after)|if (?:all|the|every)|once (?:all|the)|until|scale)\b",
    ),
    "every option at once": _Intrusion(
        r"\b(?:all|every|each)\b|\bA\W{1,5}B\W{1,5}C\b",
        r"\b(?:list|name|give|write|output|state|answer|put|select|choose|pick) (?:with |out )?"
        r"(?:all|every|each)(?: (?:of|the|four|possible|answer))* (?:option|choice|letter|label)s?"
        r"\b(?!.{0,60}\b(?:before|then|one|wrong|why)\b)|\b(?:accepts?|match on) any of them\b"
        r"|\b(?:so|sure) (?:that )?the (?:right|correct|true|gold) \w+ is (?:\w+ )?"
        r"(?:included|contained|present|among)\b",
    ),
}
"""What an instruction has no business with unless a parent has it, by kind."""


def intrusion(proposal: Proposal, context: ScreeningContext) -> str | None:
    """Find sentences that reach beyond the answer, by what they do with which thing.

    Rewards select for texts that work on the program that scores, and a tool's result can ask for
    texts that carry data away. The things are addresses, network programs, places of keys,
    credentials, messages in another role, tests and solutions, code that ends the process or
    compares as always true, verdicts and all options at once. A kind that a parent has is free,
    and so is a thing that a training question names; hosts are compared one by one. A sentence may
    forbid what it names. Intent in other words is not recognised: people read for it, or a rule
    that asks a model.
    """
    known_text = "\n".join((context.inherited_text, *context.seeds))
    masked_text = masked(proposal.text)
    if masked_text != proposal.text and masked(known_text) == known_text:
        return f"the text holds a credential that no parent has, as {MASK}: {masked_text[:80]!r}"
    return _find_intrusion(_INTRUSIONS, context, proposal.text)


_GRADING_WORDS = re.compile(
    rf"\b(?:{_GRADER}|grad(?:ed|ing)|scor(?:ed|ing)|rewards?|rewarded|points|rubric|metric|"
    rf"benchmark|"
    r"test suite|hidden tests?|reference answers?|full marks)\b",
    re.IGNORECASE,
)


def grading_words(text: str, known_text: str) -> list[str]:
    """Return the words of ``text`` about grading that ``known_text`` lacks, for a person to read.

    >>> grading_words("Be brief: the grader counts words.", "Be brief.")
    ['grader']
    """
    words = {match.group().casefold() for match in _GRADING_WORDS.finditer(text)}
    return sorted(word for word in words if word not in known_text.casefold())
