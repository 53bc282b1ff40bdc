from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from evoprompt.evaluation import Headline
from evoprompt.experiments.report.curves import PANELS, draw_headline, draw_panel
from evoprompt.experiments.report.history import TrialHistory
from evoprompt.experiments.report.records import Step
from evoprompt.experiments.report.style import arm_styles

SOLVED = Headline("solved", "share solved")
STYLES = arm_styles(["static", "coevolve"])


def trial(arm: str, seed: int, evaluations: list[tuple[int, float]]) -> TrialHistory:
    steps = [Step(n + 1, {"reward": value}) for n, (_, value) in enumerate(evaluations)]
    return TrialHistory(arm, seed, steps=steps, headline=SOLVED, evaluations=evaluations)


def test_an_arm_is_its_seeds_and_their_mean() -> None:
    axes = Figure().subplots()
    trials = [
        trial("coevolve", 0, [(0, 0.0), (100, 0.4), (200, 0.8)]),
        trial("coevolve", 1, [(0, 0.2), (200, 1.0)]),
    ]
    draw_headline(axes, trials, STYLES)
    mean = next(line for line in axes.lines if line.get_label() == "coevolve")
    assert np.asarray(mean.get_xdata()).tolist() == [0, 100, 200]
    assert np.asarray(mean.get_ydata()).tolist() == pytest.approx([0.1, 0.5, 0.9])


def test_a_seed_that_has_only_begun_does_not_cut_the_mean_short() -> None:
    axes = Figure().subplots()
    trials = [
        trial("coevolve", 0, [(0, 0.0), (100, 0.4), (200, 0.8)]),
        trial("coevolve", 1, [(0, 0.2), (50, 0.3)]),
    ]
    draw_headline(axes, trials, STYLES)
    mean = next(line for line in axes.lines if line.get_label() == "coevolve")
    assert np.asarray(mean.get_ydata()).tolist() == pytest.approx([0.0, 0.4, 0.8])


def test_the_price_of_the_target_is_written_in_the_picture() -> None:
    axes = Figure().subplots()
    draw_headline(axes, [trial("coevolve", 0, [(0, 0.1), (1200, 0.85)])], STYLES, 0.8)
    assert [text.get_text() for text in axes.texts] == ["0.8 after 1,200"]


def test_an_arm_that_never_gets_there_has_no_price() -> None:
    axes = Figure().subplots()
    draw_headline(axes, [trial("static", 0, [(0, 0.1), (1200, 0.5)])], STYLES, 0.8)
    assert len(axes.texts) == 0


def test_the_curve_bears_the_label_of_the_task_and_its_own_scale() -> None:
    axes = Figure().subplots()
    loss = Headline("loss", "held-out loss", higher_is_better=False)
    falling = trial("static", 0, [(0, 9.0), (1200, 4.0)])
    falling.headline = loss
    draw_headline(axes, [falling], STYLES, 5.0)
    assert axes.get_title(loc="left") + axes.get_title() == "Held-out loss on validation questions"
    assert axes.get_ylabel() == "held-out loss"
    assert axes.get_ylim()[1] >= 9.0
    assert [text.get_text() for text in axes.texts] == ["5 after 1,200"]


def test_without_a_target_or_an_evaluation_there_is_a_picture_all_the_same() -> None:
    axes = Figure().subplots()
    draw_headline(axes, [trial("static", 0, [(0, 0.1), (1200, 0.9)])], STYLES)
    assert len(axes.texts) == 0
    draw_headline(Figure().subplots(), [TrialHistory("static", 0)], STYLES, 0.8)


def test_values_over_steps_are_smoothed_backwards_only() -> None:
    axes = Figure().subplots()
    values = [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0]
    draw_panel(axes, PANELS[0], [trial("static", 0, list(enumerate(values)))], STYLES)
    (line,) = axes.lines
    assert np.asarray(line.get_ydata()).tolist() == pytest.approx([0, 0, 0, 0, 0, 0.2, 0.4])


def test_a_value_the_host_does_not_tell_leaves_an_empty_picture() -> None:
    axes = Figure().subplots()
    draw_panel(axes, PANELS[3], [trial("static", 0, [(0, 0.1)])], STYLES)
    assert len(axes.lines) == 0


def test_no_two_arms_look_the_same() -> None:
    names = ["static", *(f"arm-{number}" for number in range(40))]
    assert len(set(arm_styles(names).values())) == 41


def test_the_first_arms_differ_in_more_than_colour() -> None:
    styles = arm_styles(["static", "a", "b", "c", "d"])
    assert len({style.color for style in styles.values()}) == 5
    assert len({style.marker for style in styles.values()}) == 5
    assert len({str(style.line) for style in styles.values()}) == 5


def test_the_static_arm_looks_the_same_in_every_report() -> None:
    assert arm_styles(["static"])["static"] == arm_styles(["a", "static"])["static"]
