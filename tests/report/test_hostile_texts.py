"""The report of a run is drawn whatever its texts hold; impossible files end in one line."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from evoprompt.errors import InputError
from evoprompt.evaluation import Headline
from evoprompt.eventlog import EventLog
from evoprompt.events import Evaluated, Event, Evolved, Proposed, Remark, Seeded, Told
from evoprompt.experiments.cli import main
from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.eventfile import read_events
from evoprompt.experiments.report import write_report

CONFIG = RunConfig.model_validate(
    {"task": "fake", "host": "fake", "budget": 100, "evaluate_every": 50, "arms": ["coevolve"]}
)
TEXTS = [
    r"Put it in $\boxed{42}$ or ${x}_$ or $\nonsense{$.",
    "One\u2028two\x85three\u2029four\x0b\x0cfive\x1c\x1d\x1esix",
    "Red \x1b[31m and \x9b31m and \x1b]0;title\x07 and \x00 and \x7f.",
    "Half \ud800 a pair, \ufffe none, \U0010ffff none.",
    "\u202eright to left\u202c and e" + "\u0301" * 50,
    "<script>alert(1)</script> {{ 7 * 7 }} {% raw %} \\ %s %(x)s",
    "\u6539\u8fdb \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \U0001f469\u200d\U0001f52c",
    "a" * 20_000,
]


def written(root: Path, events: list[Event]) -> RunDirectory:
    directory = RunDirectory.new(root, CONFIG)
    directory.write_config()
    log = EventLog(directory.trial(TrialId("coevolve", 0)).events)
    for event in events:
        log.append(event)
    return directory


def history(*texts: str) -> list[Event]:
    names = tuple(f"c{number}" for number in range(1, len(texts) + 1))
    return [
        Seeded(0, "c0", {"instruction": "Search."}),
        Told(1, 10, 10, 0, 0.5, {"c0": 0.5}),
        *(
            Proposed(1, name, {"instruction": text}, ("c0",), text, text)
            for name, text in zip(names, texts, strict=True)
        ),
        Evolved(1, 1, names, ("c0", *names), 4),
        Told(
            2,
            20,
            10,
            0,
            0.5,
            {"c0": 0.5, **dict.fromkeys(names, 0.7)},
            feedback={name: Remark(0.1, text) for name, text in zip(names, texts, strict=True)},
        ),
        Evaluated(2, "validation", "c1", 20, {"right": 0.5}, {}, Headline("right", "right")),
    ]


def unpacked(page: str) -> Any:
    """What the page's scripts are given."""
    packed = re.search(r'<script type="text/plain" id="data"[^>]*>([^<]*)</script>', page)
    assert packed is not None
    return json.loads(gzip.decompress(base64.b64decode(packed.group(1))))


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_is_logged_merged_and_shown(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = written(tmp_path / "out", history(text))
    directory.collect()
    assert len(list(read_events(directory.events))) == 6
    with pytest.raises(SystemExit) as ended:
        main(["best", str(directory.root)])
    assert ended.value.code == 0
    assert capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:Glyph")  # no font has them all
def test_any_text_is_drawn(tmp_path: Path) -> None:
    """All in one run: a picture takes most of the time."""
    directory = written(tmp_path / "out", history(*TEXTS))
    directory.collect()
    page, picture = write_report(directory.root)
    assert picture.stat().st_size > 10_000
    text = page.read_text(encoding="utf-8")
    assert "<script>" not in text
    shown = unpacked(text)["trials"][0]["lives"]
    assert [life["text"] for life in shown] == ["Search.", *TEXTS]


def test_a_life_of_a_billion_steps_is_drawn(tmp_path: Path) -> None:
    events = [*history("Search twice."), Told(10**9, 30, 10, 0, 0.5, {"c1": 0.5})]
    directory = written(tmp_path / "out", events)
    directory.collect()
    write_report(directory.root)


def test_a_cyclic_lineage_is_refused_in_one_line(tmp_path: Path) -> None:
    events = history("Search twice.")
    events[2] = dataclasses.replace(events[2], parents=("c1",))  # type: ignore[call-arg]
    directory = written(tmp_path / "out", events)
    with pytest.raises(InputError, match=r"events\.jsonl:3 .* 'c1' was never seeded or proposed"):
        directory.collect()


def test_a_candidate_that_was_never_proposed_is_refused(tmp_path: Path) -> None:
    directory = written(tmp_path / "out", [e for e in history("x") if e.kind != "proposed"])
    with pytest.raises(InputError, match=r"events\.jsonl:3 .* 'c1' was never seeded or proposed"):
        directory.collect()


def test_credentials_in_a_notice_do_not_reach_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-abcdefgh1234")
    from evoprompt.events import Notice

    directory = written(
        tmp_path / "out", [Notice(1, "http://me:pw1234@host/ failed: sk-abcdefgh1234")]
    )
    line = directory.trial(TrialId("coevolve", 0)).events.read_text(encoding="utf-8")
    assert json.loads(line)["message"] == "http://***@host/ failed: ***"
