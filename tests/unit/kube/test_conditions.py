"""Conditions as values."""

from datetime import UTC, datetime, timedelta

from paddock.kube.conditions import get_condition, is_true, set_condition, without_condition
from paddock.kube.objects import Condition

THEN = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
LATER = THEN + timedelta(minutes=5)


def ready(status: str, reason: str = "Because", message: str = "") -> Condition:
    return Condition(type="Ready", status=status, reason=reason, message=message)


def test_a_new_condition_is_added_with_its_time():
    conditions = set_condition((), ready("False"), THEN)
    assert conditions[0].last_transition_time == THEN.replace(microsecond=0)


def test_the_transition_time_stays_while_only_the_words_change():
    conditions = set_condition((), ready("False", message="one"), THEN)
    conditions = set_condition(conditions, ready("False", "Other", "two"), LATER)
    assert len(conditions) == 1
    assert conditions[0].message == "two"
    assert conditions[0].last_transition_time == THEN.replace(microsecond=0)


def test_the_transition_time_moves_with_the_status():
    conditions = set_condition(set_condition((), ready("False"), THEN), ready("True"), LATER)
    assert conditions[0].last_transition_time == LATER.replace(microsecond=0)
    assert is_true(conditions, "Ready")


def test_setting_the_same_again_changes_nothing_and_keeps_the_order():
    other = Condition(type="Other", status="True", reason="X", last_transition_time=THEN.replace(microsecond=0))
    conditions = (*set_condition((), ready("True"), THEN), other)
    assert set_condition(conditions, ready("True"), LATER) == conditions
    assert get_condition(conditions, "Other") == other
    assert get_condition(conditions, "Missing") is None
    assert without_condition(conditions, "Ready") == (other,)
