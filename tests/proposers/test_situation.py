"""What a writer is told besides the instruction and its failures."""

from __future__ import annotations

from dataclasses import replace

from evoprompt.proposers.language import length_of, refused_of, setting_of, tried_of
from evoprompt.support.leads import SentenceValue
from evoprompt.testing.samples import candidate, candidate_stats, request
from evoprompt.types import Candidate, CandidateStats, TaskContext

NAME = "instruction"
END = "no longer than its content needs"
PARENT = request().parents[0].candidate


def test_nothing_is_made_up_where_nobody_told() -> None:
    asked = replace(request(history=0), parents=[CandidateStats(PARENT, 0.0)])
    assert setting_of(asked, PARENT, NAME) == "(nothing is known of it)"
    assert tried_of(asked, PARENT, NAME) == "(none)"
    assert refused_of(asked) == "(none)"
    assert length_of(asked, PARENT, NAME) == END


def test_those_in_use_come_before_those_given_up_and_each_text_once() -> None:
    stats = candidate_stats([0.5, 0.25, 0.75, 0.125])
    unmeasured = CandidateStats(candidate(7), 0.0)
    asked = replace(
        request(),
        parents=stats[:1],
        members=[stats[0], unmeasured, stats[1], stats[2]],
        history=[stats[3], stats[0]],
    )
    told = tried_of(asked, stats[0].candidate, NAME).splitlines()
    assert [line.partition(":")[0] for line in told] == [
        "- the instruction above, score 0.50, measured 5 times",
        "- in use, score 0.75, measured 5 times",
        "- in use, score 0.25, measured 5 times",
        "- in use, not measured yet",
        "- given up, score 0.12, measured 5 times",
    ]
    assert stats[2].candidate.text in told[1]


def test_the_evidence_of_an_earlier_step_has_its_step_and_its_lead() -> None:
    worse, unknown = candidate_stats([0.05, 0.9])[:2]
    history = [replace(worse, step=5, lead=-0.2), replace(unknown, step=60)]
    asked = replace(request(), step=90, members=[], history=history)
    lines = tried_of(asked, candidate(99), NAME).splitlines()
    assert lines[0].startswith(
        "- given up, score 0.05, measured 5 times up to step 5, 0.20 below the best instruction of "
        "that step: "
    )
    assert lines[1].startswith("- given up, score 0.90, measured 5 times up to step 60: ")
    assert lines[2].startswith("It is step 90 now.")
    assert "may be tried again" in lines[2]


def test_what_sentences_are_worth_is_told() -> None:
    worth = [SentenceValue("Be brief.", 0.06, 0.02, 3), SentenceValue("Be nice.", 0.01, 0.02, 2)]
    told = tried_of(replace(request(), sentences=worth), PARENT, NAME).splitlines()
    assert told[-1].startswith("- Be brief.: worth +0.060 ± 0.020")
    assert "Be nice." not in "".join(told), "nothing is shown of it"
    nothing = tried_of(replace(request(), sentences=worth[1:]), PARENT, NAME)
    assert "single sentences" not in nothing


def test_of_a_long_history_the_latest_are_told() -> None:
    stats = candidate_stats([0.5] * 40)
    told = tried_of(replace(request(), history=stats), candidate(99), NAME).splitlines()
    assert len(told) == 6
    assert "Way 39:" in told[-1]


def test_the_room_is_what_the_policy_has() -> None:
    told = f"at most 140 tokens, about 100 words; {END}"
    assert length_of(replace(request(), max_tokens=140), PARENT, NAME) == told


def test_other_components_take_their_room_and_are_shown() -> None:
    both = Candidate("c0", {NAME: "Add.", "tool:look": "word " * 50})
    asked = replace(request(), max_tokens=140)
    assert length_of(asked, both, NAME).startswith("at most 70 tokens, about 50 words")
    told = setting_of(asked, both, NAME)
    assert "stay as they are:\n- the description of the tool `look`: word word" in told
    what = replace(asked, setting=TaskContext(components={NAME: "what the judge reads"}))
    assert setting_of(what, both, "tool:look").endswith("- what the judge reads: Add.")
    assert setting_of(what, both, NAME).startswith("What is rewritten: what the judge reads")
