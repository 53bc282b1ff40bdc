"""The data sets that can be asked: the seven real ones, files, and the tiny world by hops."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evoprompt_retrieval.lines import decode

from evoprompt.errors import InputError
from evoprompt.rows import question_from_row
from evoprompt.types import Question
from evoprompt.validation import nearest
from evoprompt_search_qa.data.records import FORMS, parse
from evoprompt_search_qa.data.sets import SETS
from evoprompt_search_qa.tiny.task import SearchQa

TABLE_ORDER = ("hotpotqa", "2wikimultihopqa", "musique", "bamboogle", "nq", "triviaqa", "popqa")
"""The seven sets as the paper's Table 1 has them."""

HOPS = ("1-hop", "2-hop", "3-hop")
"""The test questions of the tiny world."""

OnSkip = Callable[[str], None]
"""Is told of every row that is no question, as ``file:line: reason``."""


class NoQuestionsError(InputError):
    """The questions of a set are not where they should be."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """Questions under one heading of the table.

    Attributes:
        name: of the column; also the name of a file.
        questions: with answers; their ids are unique.
        digest: of all questions of the set and their answers, before any limit.
    """

    name: str
    questions: Sequence[Question]
    digest: str = ""


def find_data_sets(
    names: Sequence[str], data: Path | None, limit: int | None, on_skip: OnSkip
) -> list[DataSet]:
    """The sets of these names, each once.

    Args:
        names: of the tiny world's columns (:data:`HOPS`, or ``tiny`` for all), of the seven sets
            (or ``all``), or paths of ``.jsonl`` files with ``id, question, golden_answers``.
        data: folder with the seven sets, as ``data prepare`` writes it or as ``<set>_test.jsonl``.
        limit: most questions per set; the first ones.
        on_skip: is told of bad rows, which are left out.

    Raises:
        NoQuestionsError: a set is not there.
        InputError: a set is unknown, cannot be read or holds no usable question.
    """
    groups = {"tiny": HOPS, "all": TABLE_ORDER}
    wanted = dict.fromkeys(one for name in names for one in groups.get(name, (name,)))
    found = []
    for name in wanted:
        questions = _read(name, data, on_skip)
        found.append(DataSet(_title(name), questions[:limit], _digest(questions)))
    titles = [one.name for one in found]
    for name, one in zip(wanted, found, strict=True):
        if titles.count(one.name) > 1:
            raise InputError(
                f"data set {name!r} has the heading {one.name!r}, as another one does; required: "
                "one heading a set; rename the file"
            )
    return found


def _digest(questions: Sequence[Question]) -> str:
    told = json.dumps([(one.id, one.text, one.answers) for one in questions])
    return hashlib.blake2b(told.encode(), digest_size=16).hexdigest()


def _title(name: str) -> str:
    return Path(name).name.removesuffix(".jsonl") if name.endswith(".jsonl") else name


def _read(name: str, data: Path | None, on_skip: OnSkip) -> list[Question]:
    if name in HOPS:
        hops = HOPS.index(name) + 1
        return [one for one in SearchQa().questions("test") if one.row["hops"] == hops]
    if name.endswith(".jsonl"):
        return _from_lines(Path(name), on_skip)
    if name not in SETS:
        known = (*HOPS, *SETS)
        raise InputError(
            f"data set is {name!r}; required: {', '.join(known)}, tiny, all, or a .jsonl file"
            f"{nearest(name, (*known, 'tiny', 'all'))}"
        )
    if data is None:
        raise NoQuestionsError(
            f"data set {name!r} without a place to read it; required: --data, the folder that "
            "'evoprompt search-qa data prepare' wrote, or one of <set>_test.jsonl files"
        )
    lines, parquet = data / f"{name}_test.jsonl", data / "test.parquet"
    if lines.is_file():
        return _from_lines(lines, on_skip)
    if parquet.is_file():
        return _from_parquet(parquet, name, on_skip)
    raise NoQuestionsError(
        f"--data is {data}, which holds neither {lines.name} nor {parquet.name}; required: one of "
        "them; run 'evoprompt search-qa data prepare', or check the path"
    )


def _from_lines(path: Path, on_skip: OnSkip) -> list[Question]:
    def rows() -> Iterator[tuple[str, str, object]]:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                place = f"{path}:{number}"
                try:
                    row = decode(line) if line.strip() else None
                except ValueError as error:
                    on_skip(f"{place}: {error}")
                    continue
                if row is not None:
                    yield place, path.stem, row

    if not path.is_file():
        raise NoQuestionsError(f"{path} is not there; required: a .jsonl file of questions")
    return _questions(str(path), rows(), on_skip)


def _from_parquet(path: Path, name: str, on_skip: OnSkip) -> list[Question]:
    try:
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise InputError(
            f"the library {error.name!r} is not installed; reading {path} needs it; "
            "pip install 'evoprompt-search-qa[data]'"
        ) from error
    filters = [
        ("data_source", "in", [form.data_source.format(name=name) for form in FORMS.values()])
    ]
    columns = ["id", "question", "golden_answers"]
    try:
        table = pyarrow.parquet.read_table(path, columns=columns, filters=filters)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read ({error}); required: the parquet that 'evoprompt search-qa "
            "data prepare' writes; prepare it again"
        ) from error
    numbered = enumerate(table.to_pylist(), start=1)
    rows = ((f"{path}:{name}:{number}", name, row) for number, row in numbered)
    return _questions(f"the set {name} in {path}", rows, on_skip)


def _questions(
    where: str, rows: Iterator[tuple[str, str, object]], on_skip: OnSkip
) -> list[Question]:
    found: dict[str, Question] = {}
    for place, source, row in rows:
        try:
            record = parse(row, source, place)
        except ValueError as error:
            on_skip(f"{place}: {error}")
            continue
        if record.id in found:
            on_skip(f"{place}: repeats the 'id' {record.id!r}")
            continue
        known = {"id": record.id, "question": record.question, "answers": [*record.answers]}
        found[record.id] = question_from_row(known)
    if not found:
        raise InputError(
            f"{where} holds no usable question; required: at least one row with 'id', 'question' "
            "and 'golden_answers'"
        )
    return list(found.values())
