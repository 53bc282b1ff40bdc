from __future__ import annotations

from evoprompt_search_qa.world import RELATIONS, World, entities, entity_types


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
