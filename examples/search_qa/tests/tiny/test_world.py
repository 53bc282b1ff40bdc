from __future__ import annotations

from evoprompt_search_qa.tiny.world import (
    MAX_SCALE,
    RELATIONS,
    World,
    entities,
    entity_types,
    names_in,
)


def test_a_world_repeats_from_its_seed_and_differs_from_the_next() -> None:
    assert World.random(3) == World.random(3)
    same = World.random(3).facts.items() & World.random(4).facts.items()
    assert len(same) < len(World.random(3).facts) / 5


def test_every_relation_of_every_subject_has_one_value_of_the_right_type() -> None:
    world = World.random(0)
    subjects = sum(len(entities()[subject]) for subject, _ in RELATIONS.values())
    assert len(world.facts) == len(world.passages) == len(set(world.passages)) == subjects
    for (relation, subject), value in world.facts.items():
        assert (entity_types()[subject], entity_types()[value]) == RELATIONS[relation]
        assert value != subject


def test_names_are_single_words_and_belong_to_one_type() -> None:
    names = [name for kind in entities().values() for name in kind]
    assert len(set(names)) == len(names)
    assert all(name.isalpha() and name.islower() for name in names)


def test_a_larger_world_has_more_of_everything_and_the_usual_one_is_as_ever() -> None:
    assert World.random(3, 1) == World.random(3)
    large = World.random(3, 5)
    assert len(large.facts) == 5 * len(World.random(3).facts)
    for (relation, subject), value in large.facts.items():
        assert (entity_types(5)[subject], entity_types(5)[value]) == RELATIONS[relation]


def test_the_names_suffice_for_the_largest_scale() -> None:
    names = [name for kind in entities(MAX_SCALE).values() for name in kind]
    assert len(set(names)) == len(names) == MAX_SCALE * len(entity_types())


def test_a_passage_names_subject_and_value() -> None:
    world = World.random(3)
    stated = {tuple(names_in(passage)) for passage in world.passages}
    assert stated == {(subject, value) for (_, subject), value in world.facts.items()}
