"""Records are bounded, and keep what the dead told of a question."""

from __future__ import annotations

from evoprompt.attributors.effects import NOBODY
from evoprompt.attributors.records import MOST_APART, Records


def test_holds_what_was_put_last() -> None:
    records = Records(9)
    records.put("q", {"c0": (2.0, 0.5)}, {})
    records.put("q", {"c0": (3.0, 0.25), "c1": (1.0, 0.75)}, {})
    assert records.of("q") == {"c0": (3.0, 0.25), "c1": (1.0, 0.75)}
    assert records.of("other") == {}


def test_the_longest_unmet_question_is_forgotten() -> None:
    records = Records(2)
    for question in ("a", "b", "a", "c"):
        records.put(question, {"c0": (1.0, 1.0)}, {})
    assert [question for question, _ in records.dump()] == ["a", "c"]
    nothing = Records(0)
    nothing.put("a", {"c0": (1.0, 1.0)}, {})
    assert nothing.dump() == []


def test_what_the_dead_told_stays_without_their_effect() -> None:
    records = Records(9)
    records.put("q", {"c0": (1.0, 1.0), "c1": (2.0, 0.5), "c2": (1.0, 0.25)}, {})
    records.forget({"c0", "c1", "unknown"}, {"c0": 0.25, "c1": -0.25, "c2": 9.0})
    assert records.of("q") == {"c2": (1.0, 0.25), NOBODY: (3.0, 0.75 + 1.0)}


def test_a_record_tells_few_candidates_apart() -> None:
    records, effects = Records(9), {f"c{number}": 0.5 for number in range(40)}
    records.put("q", {NOBODY: (4.0, 1.0), **dict.fromkeys(effects, (1.0, 1.0))}, effects)
    kept = {f"c{number}" for number in range(40 - MOST_APART, 40)}
    assert set(records.of("q")) == {NOBODY, *kept}
    assert records.of("q")[NOBODY] == (4.0 + (40 - MOST_APART), 1.0 + (40 - MOST_APART) * 0.5)


def test_goes_on_from_what_was_saved() -> None:
    whole, resumed = Records(2), Records(2)
    for question in ("a", "b"):
        whole.put(question, {"c1": (1.0, 0.5), "c0": (1.0, 0.25)}, {})
    resumed.load([(name, dict(record)) for name, record in whole.dump()])
    for records in (whole, resumed):
        records.put("c", {"c0": (1.0, 1.0)}, {})
        records.forget({"c0"}, {"c0": 0.125})
    assert resumed.dump() == whole.dump()
