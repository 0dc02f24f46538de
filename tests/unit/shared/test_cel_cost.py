"""What a condition may cost: bombs of every function are refused, what people write is not."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from placet.contracts.canonical import ARGUMENTS_BYTES_MAX
from placet.domain.cel import INT, STRING, TEXTS, VALUES, ConditionFailed, ConditionInvalid, Environment
from placet.domain.cel_cost import LOOPS_MAX, TIME_MAX

ENVIRONMENT = Environment({"arguments": VALUES, "tool": STRING, "labels": TEXTS, "history.calls": INT})
LONG = "a" * 200
#: A class of all letters, as a condition writes it.
LETTERS = "\\\\pL"
#: Two bytes of a `google.protobuf.ListValue` make one of its values, which takes a hundred.
VALUES_OF_BYTES = f'bytes("aaaaaaaaa".replace("a", "{LONG}").replace("a", "{LONG}").replace("a", "\\n\\u0000"))'


def nested(beginning: str, before: str, after: str, times: int) -> str:
    """Return an expression that is put into the same surroundings again and again."""
    text = beginning
    for _ in range(times):
        text = f"{before}{text}{after}"
    return text


BOMBS = {
    "replace": nested('"aaaaaaaaaa"', "", '.replace("a","aaaaaaaaaa")', 10) + ".size() > 0",
    "replace nothing": nested('"a"', "", f'.replace("","{LONG}")', 6) + ".size() > 0",
    "replace by arguments": nested("arguments.a", "", ".replace(arguments.b, arguments.a)", 3) + " == tool",
    "join": nested('"aaaa"', "", f'.split("").join("{LONG}")', 5) + ".size() > 0",
    "split": nested('"aaaa"', "", f'.replace("","{LONG}")', 4) + '.split("").size() > 0',
    "format": '"%s%s".format([' + nested('"aaaa"', "", f'.replace("","{LONG}")', 4) + ', tool]) != ""',
    "quote": nested("'\"'", "strings.quote(", ")", 28) + ".size() > 0",
    "reverse": nested('"aaaa"', "", f'.replace("","{LONG}").reverse()', 5) + ".size() > 0",
    "lowerAscii": nested('"aaaa"', "", f'.replace("","{LONG}").lowerAscii()', 5) + ".size() > 0",
    "upperAscii": nested('"aaaa"', "", f'.replace("","{LONG}").upperAscii()', 5) + ".size() > 0",
    "trim": nested('"aaaa"', "", f'.replace("","{LONG}").trim()', 5) + ".size() > 0",
    "substring": nested('"aaaa"', "", f'.replace("","{LONG}").substring(1)', 5) + ".size() > 0",
    "charAt": nested('"aaaa"', "", f'.replace("","{LONG}")', 4) + '.charAt(1) == "a"',
    "indexOf": "arguments.a.map(x, x).join(arguments.b).indexOf(arguments.a.map(x, x).join(arguments.b)) > 0",
    "lastIndexOf": "arguments.a.map(x, x).join(arguments.b).lastIndexOf(arguments.a.map(x, x).join(arguments.b)) > 0",
    "contains": "arguments.a.map(x, x).join(arguments.b).contains(arguments.a.map(x, x).join(arguments.b))",
    "matches": "arguments.a.matches(arguments.b)",
    "a pattern in each round": "arguments.a.all(x, !''.matches('\\\\pL{100}'))",
    "a pattern that nobody knows": "arguments.a.all(x, !''.matches(arguments.b))",
    "a pattern that is none": f"[1].all(x, arguments.a.all(y, !''.matches('(?i)[{LETTERS * 1_000}](')))",
    "a pattern of no steps": f"arguments.a.exists(x, ''.matches('({LETTERS * 500}){{0}}'))",
    "a large pattern": "arguments.a.all(x, !''.matches('(\\\\pL{100}){10}'))",
    "a message of bytes": f"[{VALUES_OF_BYTES}].all(each, type(google.protobuf.Any{{type_url: "
    "'type.googleapis.com/google.protobuf.ListValue', value: each}) != int)",
    "a message": "google.protobuf.StringValue{value: tool} == 'pay'",
    "concatenation": nested("[arguments.a]", "[1,2,3,4,5,6,7,8,9,10].map(x, ", ")", 4) + ".size() > 0",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_in_no_time(name: str) -> None:
    """It is never evaluated, neither where it is checked nor where calls are judged."""
    begun = time.process_time()
    with pytest.raises(ConditionInvalid, match="this costs too much"):
        ENVIRONMENT.compile_condition(BOMBS[name])
    assert time.process_time() - begun < 1.0


@pytest.mark.parametrize(
    "text",
    [
        'arguments.to.endsWith("@example.org") && arguments.amount < 100.0',
        "arguments.items.all(each, each.price * each.count < 50.0)",
        'arguments.text.lowerAscii().replace(" ", "").contains("refund")',
        'arguments.to.split("@")[1] in ["example.org", "example.com"]',
        'arguments.iban.matches("^[A-Z]{2}[0-9]{2}[A-Z0-9]{10,30}$")',
        'labels.plan == "gold" && history.calls < 3',
        '"%s-%d".format([tool, history.calls]) == labels.key',
        'arguments.tags.filter(tag, tag != "").map(tag, tag.trim()).join(",").size() < 80',
        "arguments.items.exists(one, arguments.others.exists(other, one == other))",
        'has(arguments.at) && timestamp(arguments.at).getHours("Europe/Berlin") < 18',
    ],
)
def test_what_people_write_is_no_bomb(text: str) -> None:
    """Ordinary conditions compile."""
    assert "BOOL" == ENVIRONMENT.compile_condition(text).type_name


def loops(deep: int, macro: str = "all") -> str:
    """Return a condition of loops in the bodies of loops."""
    text = "true"
    for number in range(deep):
        text = f"[1].{macro}(x{number}, {text})"
    return text


@pytest.mark.parametrize("macro", ["all", "exists", "exists_one"])
def test_loops_stand_so_deep_in_one_another_and_no_deeper(macro: str) -> None:
    """Where the next one begins is said."""
    assert "BOOL" == ENVIRONMENT.compile_condition(loops(LOOPS_MAX, macro)).type_name
    with pytest.raises(ConditionInvalid, match="loops stand more than 4 deep in one another"):
        ENVIRONMENT.compile_condition(loops(LOOPS_MAX + 1, macro))


def test_loops_over_what_loops_made_are_not_counted() -> None:
    """One after the other they cost no more than each."""
    text = nested("[1]", "", ".map(x, x)", 3 * LOOPS_MAX) + ".size() > 0"
    assert "BOOL" == ENVIRONMENT.compile_condition(text).type_name


def test_reading_a_condition_takes_no_longer_for_its_depth() -> None:
    """Sixteen loops, two hundred characters, took nine seconds: each doubled it. Here as deep as the library reads."""
    for deep in (LOOPS_MAX, 8, 12, 15, 16):
        begun = time.process_time()
        with suppress(ConditionInvalid):
            ENVIRONMENT.compile_condition(loops(deep))
        assert time.process_time() - begun < 0.2


CALLS = {
    "arguments.a.map(x, x).size() > 0": {"a": [1] * 9_999},
    "arguments.a.all(x, (arguments.a + arguments.a).size() > 0)": {"a": [1] * 5_000},
    "arguments.a.all(x, !(2 in arguments.a))": {"a": [1] * 9_000},
    'arguments.a.all(x, arguments.b.charAt(30000) != "b")': {"a": [1] * 9_000, "b": "a" * 30_001},
    "arguments.a.replace(arguments.b, arguments.c).size() > 0": {"a": "a" * 20_000, "b": "", "c": "a" * 20_000},
}


@pytest.mark.parametrize("text", CALLS)
def test_a_call_that_makes_a_condition_costly_is_held(text: str) -> None:
    """What a model sends is weighed where the condition alone does not say enough: no answer, and in no time."""
    expression = ENVIRONMENT.compile_condition(text)
    begun = time.process_time()
    with pytest.raises(ConditionFailed, match="too large for the condition"):
        expression.holds({"arguments": CALLS[text]})
    assert time.process_time() - begun < 1.0


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("arguments.a.map(x, x).size() > 0", {"a": [1] * 1_000}),
        ("arguments.a.contains(arguments.b)", {"a": "a" * 40_000, "b": "a" * 20_000 + "b"}),
        ("arguments.a.all(x, 1 in arguments.a)", {"a": [1] * 1_000}),
        ("arguments.a.matches('(a?){100}b')", {"a": "a" * (ARGUMENTS_BYTES_MAX - 10)}),
        ("arguments.a.replace('a', 'bbb').size() > 0", {"a": "a" * (ARGUMENTS_BYTES_MAX - 10)}),
    ],
)
def test_what_is_evaluated_takes_no_longer_than_its_bound(text: str, arguments: dict[str, object]) -> None:
    """The bound holds, with room for a slow machine."""
    expression = ENVIRONMENT.compile_condition(text)
    begun = time.process_time()
    expression.holds({"arguments": arguments})
    assert time.process_time() - begun < 6 * TIME_MAX / 1e9


#: Lists that stand in others, or come out of loops, are as long as they are; and empty ones are compared too.
WRAPPED = {
    "[arguments.a][0].all(x, !arguments.b.matches('x*y'))": {"a": [1] * 9_000, "b": "x" * 30_000},
    "{'a': arguments.a}.a.all(x, !arguments.b.matches('x*y'))": {"a": [1] * 9_000, "b": "x" * 30_000},
    "[arguments.a].all(z, z.all(x, !arguments.b.matches('x*y')))": {"a": [1] * 9_000, "b": "x" * 30_000},
    "[1].map(q, arguments.a)[0].all(x, !arguments.b.matches('x*y'))": {"a": [1] * 9_000, "b": "x" * 30_000},
    "arguments.a.all(x, arguments.a == arguments.b)": {"a": [[]] * 6_000, "b": [[]] * 6_000},
    "arguments.a.all(x, !(1 in arguments.a))": {"a": [[]] * 9_000},
    "arguments.a.all(x, !({} in arguments.a))": {"a": [{}] * 9_000},
}


@pytest.mark.parametrize("text", WRAPPED)
def test_what_hides_how_long_a_list_is_hides_no_cost(text: str) -> None:
    """A literal around a list counted as one element, a macro's list as its rounds, an empty list as nothing."""
    expression = ENVIRONMENT.compile_condition(text)
    begun = time.process_time()
    with pytest.raises(ConditionFailed, match="too large for the condition"):
        expression.holds({"arguments": WRAPPED[text]})
    assert time.process_time() - begun < 1.0


#: Of every function that goes through a text: one condition that calls it with the text `t`.
READERS = {
    "size": "size(arguments.t) < 0",
    "int": "int(arguments.t) < 0",
    "uint": "uint(arguments.t) == 1u",
    "double": "double(arguments.t) < 0.0",
    "bool": "bool(arguments.t)",
    "timestamp": "timestamp(arguments.t) == timestamp('2026-01-01T00:00:00Z')",
    "duration": "duration(arguments.t) == duration('1s')",
    "getHours": "timestamp(arguments.t).getHours('+02:00') == 25",
    "startsWith": "arguments.t.startsWith(arguments.t + 'b')",
    "type": "type(arguments.t) == int",
    "lowerAscii": "arguments.t.lowerAscii() == ''",
}
LONG_TEXTS = {"letters": "a" * 50_000, "numbers": "1" * 50_000, "hours": "1h" * 25_000}


@pytest.mark.parametrize("long", LONG_TEXTS)
@pytest.mark.parametrize("name", READERS)
def test_a_function_in_a_loop_stands_still_for_nobody(name: str, long: str) -> None:
    """Counting a text's characters cost nothing in the bound, and ten of it in a loop over 5,000 took a minute."""
    expression = ENVIRONMENT.compile_condition(f"arguments.l.exists(x, {' || '.join([READERS[name]] * 10)})")
    begun = time.process_time()
    with suppress(ConditionFailed):
        expression.holds({"arguments": {"l": [1] * 5_000, "t": LONG_TEXTS[long]}})
    assert time.process_time() - begun < 6 * TIME_MAX / 1e9
