"""Proposals become candidates, or are refused with a reason, before a rollout is spent."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from evoprompt.log.events import Proposed
from evoprompt.replay import ReplayBuffer
from evoprompt.rules import ScreeningContext
from evoprompt.screening import Screening
from evoprompt.testing.samples import REQUIRED, candidate, question, trajectory
from evoprompt.types import Candidate, Proposal, TextLimits

C0, C1 = candidate(0), candidate(1)
GOOD = "Look at both numbers first, then write <answer>the sum</answer>."


class Watching:
    """A rule that lets everything pass and remembers what it was shown."""

    def __init__(self) -> None:
        self.seen: list[tuple[Proposal, ScreeningContext]] = []

    def __call__(self, proposal: Proposal, context: ScreeningContext) -> None:
        members, rejected = sorted(context.members), sorted(context.rejected)
        self.seen.append((proposal, replace(context, members=members, rejected=rejected)))


def screening(rule: Watching | None = None, replay: ReplayBuffer | None = None) -> Screening:
    return Screening([rule] if rule else None, replay or ReplayBuffer(), REQUIRED)


def proposal(text: str, *parents: Candidate) -> Proposal:
    return replace(Proposal.of(text, *parents, rationale="why"), proposer="Fake")


def screen(one: Screening, *proposals: Proposal) -> list[Candidate]:
    return one.screen(proposals, [C0, C1], C0, step=15)


class TestAdmitted:
    def test_one_that_passes_becomes_a_candidate(self) -> None:
        assert screen(screening(), proposal(GOOD, C1)) == [
            Candidate("c0", {"instruction": GOOD}, ("c1",), 15, "Fake", "why")
        ]

    def test_ids_are_given_in_order_and_only_to_those_that_pass(self) -> None:
        one = screening()
        other = "Add the tens, then the ones; write <answer>what you get</answer>."
        found = screen(one, proposal(GOOD), proposal("  "), proposal(other))
        assert [(found_.id, found_.text) for found_ in found] == [("c0", GOOD), ("c1", other)]
        assert one.known.born == 2

    @pytest.mark.parametrize(
        ("named", "expected"),
        [
            ((), ("c0",)),
            (("c1",), ("c1",)),
            (("c7",), ("c7",)),
            (("c7", "c1"), ("c7", "c1")),
        ],
    )
    def test_it_descends_from_whom_it_was_made_from_dead_or_alive(
        self, named: tuple[str, ...], expected: tuple[str, ...]
    ) -> None:
        one = screening()
        given = replace(proposal(GOOD), parents=named)
        (found,) = one.screen([given], [C0, C1], C0, step=15, dead=[candidate(7)])
        assert found.parents == expected

    def test_whoever_names_a_parent_that_nobody_knows_is_refused(self) -> None:
        one = screening()
        given = replace(proposal(GOOD), parents=("c9", "c7"))
        assert one.screen([given], [C0, C1], C0, step=15, dead=[candidate(7)]) == []
        assert one.findings[0].reason.startswith("names the unknown parents c9")

    def test_rules_read_the_dead_parent(self) -> None:
        rule, dead = Watching(), candidate(7)
        given = replace(proposal(GOOD), parents=("c7",))
        screening(rule).screen([given], [C0, C1], C0, step=15, dead=[dead])
        ((judged, context),) = rule.seen
        assert (judged.parents, list(context.parents)) == (("c7",), [dead.text])
        assert dead.text not in context.members


class TestTurnedAway:
    @pytest.mark.parametrize(
        ("given", "rule"),
        [
            (proposal(" "), "empty"),
            (proposal("Look at both numbers first."), "protocol"),
            (proposal(C1.text), "duplicate"),
            (proposal("I'm sorry, but I can't help with that <answer></answer>."), "meta_talk"),
            (Proposal({"instruction": GOOD, "tool": "x"}), "components"),
            (Proposal({"tool": GOOD}), "components"),
            (Proposal({}), "components"),
        ],
    )
    def test_a_bad_one_gets_no_id_and_an_event_with_the_reason(
        self, given: Proposal, rule: str
    ) -> None:
        one = screening()
        assert screen(one, given) == []
        assert one.known.born == 0
        (event,) = one.events
        assert isinstance(event, Proposed)
        assert (event.candidate, event.rule, event.step) == ("", rule, 15)
        assert event.reason
        json.dumps(event.to_json(), allow_nan=False)

    def test_the_same_text_twice_is_a_duplicate_of_the_first(self) -> None:
        assert [found.id for found in screen(screening(), proposal(GOOD), proposal(GOOD))] == ["c0"]

    def test_what_verification_turned_away_is_not_in_the_same_generation(self) -> None:
        """A few questions refute nobody, and the policy has become another by the next one."""
        one = screening()
        (found,) = screen(one, proposal(GOOD))
        one.reject_for_generation(found)
        assert screen(one, proposal(GOOD)) == []
        resumed = screening()
        resumed.known.load_state_dict(json.loads(json.dumps(one.known.state_dict())))
        assert screen(resumed, proposal(GOOD)) == []
        for again in (one, resumed):
            again.begin_generation()
            assert len(screen(again, proposal(GOOD))) == 1


class TestWhatRulesSee:
    def test_parents_living_limits_and_training_data(self) -> None:
        rule, replay = Watching(), ReplayBuffer()
        replay.add(1, [trajectory(C0, question(n), 0.0) for n in (3, 4)])
        one = screening(rule, replay)
        one.limits = TextLimits(len, 99, 500, ("<|end|>",))
        one.seed(proposal("First."))
        one.remember_rejected(candidate(8))
        screen(one, proposal(GOOD, C1), proposal("Other.", C0, C1))
        (first, context), (_, second) = rule.seen
        assert first.text == GOOD
        assert context == ScreeningContext(
            parents=[C1.text],
            required=REQUIRED,
            members=sorted([C0.text, C1.text]),
            rejected=[candidate(8).text],
            questions=[question(3).text, question(4).text],
            answers=["6", "8"],
            limits=one.limits,
            seeds=("First.",),
        )
        assert second.parents == [C0.text, C1.text]
        assert second.members == sorted([C0.text, C1.text, GOOD])


class TestMemory:
    def test_the_latest_texts_that_a_person_rejected_are_remembered(self) -> None:
        memory = screening()
        for number in range(70):
            memory.remember_rejected(candidate(number))
        rule = Watching()
        resumed = screening(rule)
        resumed.known.load_state_dict(memory.known.state_dict())
        screen(resumed, proposal(GOOD))
        ((_, context),) = rule.seen
        assert context.rejected == sorted(candidate(number).text for number in range(6, 70))

    def test_findings_about_the_text_of_a_person_are_not_the_proposers(self) -> None:
        written = screening()
        screen(written, proposal("  "))
        before = list(written.findings)
        assert [finding.rule for finding in before] == ["empty"]
        added, finding = written.screen_written(proposal(GOOD), [C0], C0, 15, override=False)
        assert added is not None
        assert finding is None
        assert written.findings == before

    def test_a_text_that_lacks_a_component_is_added_by_no_override(self) -> None:
        two_parts = replace(C0, components={"instruction": "Add.", "tools": "None."})
        written = screening()
        added, finding = written.screen_written(
            proposal(GOOD), [two_parts], two_parts, 15, override=True
        )
        assert added is None
        assert finding is not None
        assert finding.rule == "components"

    def test_the_longest_question_leaves_the_least_room(self) -> None:
        replay = ReplayBuffer()
        questions = [question(3), question(1_000_000)]
        replay.add(1, [trajectory(C0, asked, 0.0) for asked in questions])
        limited = screening(replay=replay)
        limited.limits = TextLimits(len, 90, 100)
        assert limited.remaining_tokens() == 100 - len(questions[1].text)
        limited.limits = TextLimits(len, 20, 100)
        assert limited.remaining_tokens() == 20
