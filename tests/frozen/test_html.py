"""What a notebook shows of a result: the changes of the text, the summary and the curve."""

from __future__ import annotations

from xml.etree import ElementTree

from optimizing import SEED, Writes, learn, optimize

from evoprompt.optimizer.html import diff_html


def test_a_notebook_shows_what_changed_the_facts_and_the_curve() -> None:
    result = learn()
    page = ElementTree.fromstring(result._repr_html_())
    inserted = "".join(element.text or "" for element in page.iter("ins"))
    assert inserted.strip() == result.best.text.removeprefix(SEED).strip()
    assert [element.text for element in page.iter("li")] == list(result.facts)
    (line,) = page.iter("polyline")
    assert len(line.attrib["points"].split()) == 2 * len(result.curve) - 1


def test_each_component_is_shown_under_its_name() -> None:
    result = optimize(
        {"plan": "Plan <it>.", "act": "Act & see."},
        ["a", "b", "c", "d"],
        lambda example, output: float("well" in output),
        program=lambda texts, example: texts["act"],
        proposer=Writes(lambda request: {"act": "Act well & see."}),
        budget=40,
        valset=["e", "f"],
        progress=False,
    )
    page = ElementTree.fromstring(result._repr_html_())
    assert [element.text for element in page.iter("b")] == ["plan", "act"]
    assert "".join(element.text or "" for element in page.iter("ins")).strip() == "well"


def test_markup_in_a_text_is_shown_and_not_run() -> None:
    shown = diff_html("<b>Be</b> brief.", "<script>Be</script> brief.")
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert diff_html("a  b\n c", "a  b\n c") == "a  b\n c"
