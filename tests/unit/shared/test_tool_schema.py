"""Parameter schemas: which can be enforced, and which arguments fit them."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import pytest

from placet.domain.tool_schema import (
    DETAIL_MAX,
    ERRORS_MAX,
    ArgumentError,
    argument_errors,
    argument_names,
    closed,
    compiled,
    schema_problems,
)


def an_object(**properties: Any) -> dict[str, Any]:
    """Return a closed schema with these properties."""
    return closed({"type": "object", "properties": properties})


def errors(schema: dict[str, Any], arguments: dict[str, Any], *redact: str) -> list[tuple[str, str]]:
    """Return pointer and detail of each error."""
    return [(e.pointer, e.detail) for e in argument_errors(compiled(schema), arguments, list(redact))]


def test_unnamed_arguments_are_refused_by_default() -> None:
    """A schema that says nothing about other arguments admits none."""
    found = errors(an_object(a={}), {"a": 1, "b": 2})

    assert [("", "Additional properties are not allowed ('b' was unexpected)")] == found


def test_schema_that_speaks_about_other_arguments_is_left_alone() -> None:
    """Whoever wants unnamed arguments writes so."""
    schema = {"type": "object", "additionalProperties": {"type": "string"}}

    assert (schema, None, []) == (closed(schema), argument_names(schema), errors(schema, {"x": "y"}))


def test_composed_schema_is_closed_over_all_its_parts() -> None:
    """Arguments named in a part of the schema are named."""
    schema = closed({"type": "object", "allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]})

    assert [] == errors(schema, {"a": 1, "b": 2})
    assert [("", "Unevaluated properties are not allowed ('c' was unexpected)")] == errors(schema, {"c": 1})


@pytest.mark.parametrize(
    ("format_name", "good", "bad"),
    [
        ("email", "ada@example.org", "ada@example.org\nbcc: eve@example.org"),
        ("email", "a.b+c@mail.example.org", "ada@localhost"),
        ("date-time", "2026-02-03T04:05:06.789Z", "2026-02-30T04:05:06Z"),
        ("date-time", "2026-02-03t04:05:06+02:00", "2026-02-03T04:05:06"),
        ("date", "2026-02-03", "03.02.2026"),
        ("uri", "https://example.org/a?b=c", "https://example.org/a b"),
        ("uri", "mailto:ada@example.org", "example.org"),
        ("uri", "https://[::1]/", "https://[::1/"),
        ("uuid", "5b0d3c5e-7f5e-4f0e-9a59-3d6f0c1f7a11", "5b0d3c5e"),
        ("ipv4", "192.0.2.1", "192.0.2.256"),
        ("ipv6", "2001:db8::1", "2001:db8::g"),
        ("regex", "a+", "a(+"),
    ],
)
def test_format_is_checked(format_name: str, good: str, bad: str) -> None:
    """Every format that a schema may name is enforced."""
    schema = an_object(a={"type": "string", "format": format_name})

    assert ([], [("/a", f"{bad!r} is not a {format_name!r}")]) == (
        errors(schema, {"a": good}),
        errors(schema, {"a": bad}),
    )


def test_format_is_no_business_of_other_types() -> None:
    """A format speaks about text only, as the draft says."""
    formats = {name: {"format": name} for name in ("email", "date-time", "uri")}

    assert [] == errors(an_object(**formats), dict.fromkeys(formats, 5))


def test_errors_are_sorted_by_pointer() -> None:
    """The model reads them in the same order each time; keys with slashes are escaped."""
    schema = an_object(**{"b": {"type": "integer"}, "a/~": {"type": "string"}, "c": {"items": {"minimum": 1}}})

    assert [
        ("/a~1~0", "1 is not of type 'string'"),
        ("/b", "1.5 is not of type 'integer'"),
        ("/c/1", "0 is less than the minimum of 1"),
    ] == errors(schema, {"c": [1, 0], "b": 1.5, "a/~": 1})


def test_errors_about_a_whole_object_name_the_rule_only() -> None:
    """A message never repeats all arguments."""
    schema = {**an_object(a={}, b={}), "minProperties": 2}

    assert [("", "does not satisfy minProperties: 2")] == errors(schema, {"a": "secret"})


def test_redacted_value_is_never_quoted() -> None:
    """An error below a redacted pointer names the broken rule and not the value; others are untouched."""
    schema = an_object(
        card={"type": "object", "properties": {"pan": {"pattern": "^[0-9]$"}}}, cardholder={"maxLength": 1}
    )

    assert [
        ("/card/pan", 'does not satisfy pattern: "^[0-9]$"'),
        ("/cardholder", "'ada' is too long"),
    ] == errors(schema, {"card": {"pan": "4111"}, "cardholder": "ada"}, "/card")


def test_errors_are_bounded() -> None:
    """However wrong the arguments are, the answer stays small."""
    schema = an_object(a={"items": {"type": "integer"}})

    found = errors(schema, {"a": ["x" * 1000] * 60})

    assert (ERRORS_MAX, DETAIL_MAX) == (len(found), max(len(detail) for _, detail in found))


def test_schema_that_calls_itself_ends() -> None:
    """Arguments nested too deeply for the schema are an error and not a crash."""
    value: dict[str, Any] = {}
    for _ in range(2000):
        value = {"a": value}

    assert [ArgumentError("", "nested too deeply")] == argument_errors(compiled(an_object(a={"$ref": "#"})), value, [])


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "array"}, (("type",), "the parameters of a tool must be of type 'object'")),
        ({}, (("type",), "the parameters of a tool must be of type 'object'")),
        (an_object(a={"type": "text"}), (("properties", "a", "type"), "'text' is not a type of JSON Schema")),
        (
            an_object(a={"pattern": "("}),
            (("properties", "a", "pattern"), "pattern '(' cannot be matched in linear time: missing ): ("),
        ),
        ({"type": "object", "$id": "https://example.org"}, (("$id",), "keyword '$id' is not supported")),
        # Each reference to one is looked for in the whole schema, at every step.
        (an_object(a={"$anchor": "b"}), (("properties", "a", "$anchor"), "keyword '$anchor' is not supported")),
        (
            {"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"},
            (("$schema",), "only JSON Schema draft 2020-12 is understood"),
        ),
        (
            an_object(a={"anyOf": [{"$ref": "#/$defs/b"}]}),
            (
                ("properties", "a", "anyOf", 0, "$ref"),
                "reference '#/$defs/b' leads to no schema inside this one",
            ),
        ),
        # Nobody has read what stands there: it need not be a schema.
        *(
            (
                {**an_object(a={"$ref": f"#/{at}"}), at: {"multipleOf": 0}},
                (("properties", "a", "$ref"), f"reference '#/{at}' leads to no schema inside this one"),
            )
            for at in ("x", "default")
        ),
        # Not the keyword, but an argument of that name.
        (
            an_object(default={"$anchor": "b"}),
            (("properties", "default", "$anchor"), "keyword '$anchor' is not supported"),
        ),
    ],
)
def test_schema_that_cannot_be_enforced_is_refused(schema: dict[str, Any], problem: tuple[Any, str]) -> None:
    """The problem comes with the steps to its place."""
    assert [problem] == schema_problems(schema)


def test_words_in_data_are_no_keywords() -> None:
    """An argument may be called `format` or `$ref`, and an example may contain anything."""
    schema = an_object(
        **{"format": {"type": "string", "examples": [{"format": "x"}]}, "$ref": {"const": {"$ref": "y"}}}
    )

    assert [] == schema_problems(schema)


@pytest.mark.parametrize(
    "reference", ["#", "#/$defs/all", "#/properties/b~1c", "#/properties/b~1c/items/0", "#/properties/d%20e"]
)
def test_a_reference_may_lead_to_any_schema_inside(reference: str) -> None:
    """Wherever it stands, as RFC 6901 writes it in an address."""
    named = {"b/c": {"items": {"anyOf": [{}]}, "prefixItems": [{}]}, "d e": True}
    problem = (("properties", "a", "$ref"), f"reference {reference!r} leads to no schema inside this one")
    schema = {**an_object(a={"$ref": reference}, **named), "$defs": {"all": True}}
    assert ([problem] if reference.endswith("items/0") else []) == schema_problems(schema)


def test_reference_inside_the_schema_is_followed() -> None:
    """Definitions are used as the draft says."""
    schema = {**an_object(a={"$ref": "#/$defs/amount"}), "$defs": {"amount": {"exclusiveMinimum": 0}}}

    assert ([], 1) == (schema_problems(schema), len(errors(schema, {"a": 0})))


def test_a_pattern_never_takes_for_ever() -> None:
    """What keeps Python's own engine busy for longer than anybody lives is answered at once, also for names."""
    endless = "a" * 5_000 + "!"
    assert [("/a", f"'{endless}' does not match '^(a+)+$'"[:DETAIL_MAX])] == errors(
        an_object(a={"pattern": "^(a+)+$"}), {"a": endless}
    )
    named = {"type": "object", "patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}
    unexpected = f"Additional properties are not allowed ('{endless}' was unexpected)"
    assert [("", unexpected[:DETAIL_MAX])] == errors(named, {endless: 1})


def test_a_dialect_brings_no_other_patterns() -> None:
    """A part of a schema that names the dialect of all is checked like the rest of it."""
    dialect = "https://json-schema.org/draft/2020-12/schema"
    schema = an_object(a={"$schema": dialect, "pattern": "^(a+)+$"})
    assert ([], ["/a"]) == (schema_problems(schema), [at for at, _ in errors(schema, {"a": "a" * 5_000 + "!"})])


def doubling(levels: int) -> dict[str, Any]:
    """Return definitions of which each asks the next one twice."""
    return {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(levels)} | {f"d{levels}": {}}


def standing_in_one_another(levels: int) -> dict[str, Any]:
    """Return a schema of which each level looks at what is below it twice."""
    below = standing_in_one_another(levels - 1) if levels else {}
    return {"allOf": [below], "unevaluatedProperties": False}


def a_chain(levels: int) -> dict[str, Any]:
    """Return arguments so deep."""
    return {"a": a_chain(levels - 1)} if levels else {}


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({**an_object(a={"$ref": "#/$defs/d0"}), "$defs": doubling(24)}, {"a": 1}),
        (
            {"type": "object", "properties": {"a": {"$ref": "#"}}, "patternProperties": {"a": {"$ref": "#"}}},
            a_chain(24),
        ),
    ],
)
def test_a_check_that_would_double_with_each_level_ends(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    """References to references, values that two parts look at: no check is dearer than its bound."""
    said = "too costly to check: write less, or give the tool a plainer schema"
    assert ([], [("", said)]) == (schema_problems(schema), errors(schema, arguments))


def test_parts_that_stand_in_one_another_are_looked_through_once() -> None:
    """What nothing is left of to look at is not looked for in each of them: each level doubled the time."""
    begun = time.process_time()
    assert [] == errors(an_object(a=standing_in_one_another(24)), {"a": {}})
    assert time.process_time() - begun < 1.0


@pytest.mark.parametrize(
    ("values", "wrong"),
    [([1, True, "1"], []), ([1, 1.0], ["/a"]), ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], ["/a"]), ([], [])],
)
def test_values_are_unique_as_json_has_them(values: list[Any], wrong: list[str]) -> None:
    """Numbers by their value, objects whatever the order of their names."""
    assert wrong == [at for at, _ in errors(an_object(a={"uniqueItems": True}), {"a": values})]


def test_many_objects_are_compared_in_the_time_that_they_take_to_read() -> None:
    """Each with each of them would take seconds."""
    begun = time.process_time()
    found = errors(an_object(a={"uniqueItems": True}), {"a": [{"a": at} for at in range(6_000)]})
    assert ([], True) == (found, time.process_time() - begun < 1)


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"x-a": 1, "x-b": 2}, []),
        ({"x-a": "one"}, [("/x-a", "'one' is not of type 'integer'")]),
        ({"y": 1}, [("", "Additional properties are not allowed ('y' was unexpected)")]),
        ({"b": 1}, []),
    ],
)
def test_names_may_follow_a_pattern(arguments: dict[str, Any], wrong: list[tuple[str, str]]) -> None:
    """A pattern is found anywhere in a name; what neither a name nor a pattern covers is not let in."""
    schema = {
        "type": "object",
        "properties": {"b": {}},
        "patternProperties": {"^x-": {"type": "integer"}},
        "additionalProperties": False,
    }
    assert wrong == errors(schema, arguments)


@pytest.mark.parametrize("keyword", ["pattern", "patternProperties"])
def test_a_pattern_that_may_take_for_ever_is_refused(keyword: str) -> None:
    """Look-arounds and back-references are an error of the rulebook, with their place."""
    value: Any = "(?=a)b" if keyword == "pattern" else {"(?=a)b": {}}
    (problem,) = schema_problems(an_object(a={keyword: value}))
    assert (("properties", "a", keyword), True) == (problem[0], "linear time" in problem[1])


def test_patterns_of_names_are_not_mixed_with_what_is_left_over() -> None:
    """What the draft's `unevaluatedProperties` leaves over is found with Python's engine: both together are refused."""
    schema = {"type": "object", "allOf": [{"patternProperties": {"^x-": {}}}]}
    assert [((), "patternProperties and unevaluatedProperties cannot be enforced together")] == schema_problems(schema)


LONG_ENUM = [0] * 9_900 + [1, {"b": 2}]


@pytest.mark.parametrize(
    ("values", "wrong"), [([1] * 8_000, []), ([1.0, {"b": 2.0}], []), ([True, "1", {"b": 3}], ["/a/0", "/a/1", "/a/2"])]
)
def test_a_long_enum_costs_no_more_than_a_short_one(values: list[Any], wrong: list[str]) -> None:
    """Eight hundred values of two kilobytes took seconds; what is equal in JSON is among them, and true is not 1."""
    schema = {"type": "object", "properties": {"a": {"items": {"enum": LONG_ENUM}}}}
    begun = time.process_time()
    assert wrong == [where for where, _ in errors(schema, {"a": values})]
    assert time.process_time() - begun < 1.0


def test_many_patterns_are_matched_so_often_and_no_more() -> None:
    """Each name with each pattern takes some time of the check."""
    patterns: dict[str, Any] = {f"x{number}": {} for number in range(400)}
    schema = {
        "type": "object",
        "properties": {"a": {"items": {"additionalProperties": {}, "patternProperties": patterns}}},
    }
    begun = time.process_time()
    assert [""] == [where for where, _ in errors(schema, {"a": [{"x": 1}] * 2_000})]
    assert time.process_time() - begun < 2.0


def behind_references(part: dict[str, Any], times: int) -> dict[str, Any]:
    """Return a schema that asks the same of each value so often."""
    return an_object(a={"allOf": [{"$ref": "#/$defs/p"}] * times}) | {"$defs": {"p": part}}


NAMES = [f"n{number}" for number in range(3_000)]


#: RE2 goes on to follow all ways at once: a microsecond and more for each step and letter.
MANY_WAYS = "(?:(?:x.{30}y?){30}|(?:x.{29}y?){31})$z"

#: Of each a fault that another part forgives, which writes out the whole value.
WRONG: list[Any] = [False, {"type": "string"}, {"minItems": 30_000}, {"enum": [7]}, {"not": {}}, {"const": 1}]


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_faults_that_another_part_forgives_are_not_kept(keyword: str) -> None:
    """Each of them had the whole text: a gigabyte for an answer of 65 kB."""
    tracemalloc.start()
    errors(behind_references({keyword: [{keyword: [{"maxLength": 1}] * 200}] * 20}, 20), {"a": "x" * 65_000})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30_000_000


def test_what_was_looked_at_is_kept_once() -> None:
    """Each level of a reference to itself had a list of all places: a gigabyte for 20,000 zeros."""
    part = {"unevaluatedItems": False, "$ref": "#/$defs/d"}
    tracemalloc.start()
    errors(an_object(a=part) | {"$defs": {"d": {"items": True, "$ref": "#/$defs/d"}}}, {"a": [0] * 20_000})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30_000_000


def test_a_schema_is_read_in_time() -> None:
    """Things that cannot be sorted must be all different: the draft's own check compares each with each."""
    mixed = [number if number % 2 else str(number) for number in range(5_000)]
    begun = time.process_time()
    problems = schema_problems({"type": "object", "required": mixed})
    assert (20, True) == (len(problems), time.process_time() - begun < 1.0)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (an_object(a={"items": {"anyOf": [{"required": NAMES}, {}]}}), [{}] * 8_000),
        (an_object(a={"items": {"anyOf": [{"dependentRequired": {"x": NAMES}}, {}]}}), [{"x": 1}] * 5_000),
        (an_object(a={"items": {"dependentRequired": {name: [] for name in NAMES}}}), [{}] * 20_000),
        (behind_references({"allOf": [{"enum": [*range(33)]}] * 40}, 45), [1] * 30_000),
        (behind_references({"allOf": [{"const": [1] * 900}] * 10}, 45), [1] * 900),
        (behind_references({"enum": [[number] * 280 for number in range(30)]}, 45), [[1] * 280] * 40),
        (behind_references({"allOf": [{"format": "email"}] * 150}, 45), "a@" + "b." * 30_000),
        (behind_references({"allOf": [{"pattern": "(b.)*c$"}] * 150}, 45), "a@" + "b." * 30_000),
        (
            behind_references({"allOf": [{"anyOf": [{"additionalProperties": False}, True]}] * 110}, 45),
            {str(number): 1 for number in range(6_000)},
        ),
        *((behind_references({"allOf": [{"anyOf": [wrong, True]}] * 110}, 45), [1] * 20_000) for wrong in WRONG),
        (behind_references({"uniqueItems": True}, 45), [*range(10_000)]),
        (behind_references({"allOf": [{"format": "regex"}] * 150}, 45), r"\pL{1000}"),
        (behind_references({"allOf": [{"format": "regex"}] * 150}, 45), r"(?:(?i)" + r"\pL" * 20_000 + "){0}"),
        (behind_references({"allOf": [{"allOf": [{"items": True}] * 15}] * 15}, 45), [*range(12_000)]),
        (behind_references({"uniqueItems": True}, 45), ["\\" * 32_000]),
        (behind_references({"allOf": [{"items": True}], "unevaluatedItems": False}, 45), [0] * 30_000),
        (behind_references({"allOf": [{"const": "x"}, {"enum": LONG_ENUM}] * 20}, 45), "\\" * 32_000),
        (behind_references({"allOf": [{"pattern": MANY_WAYS}] * 5}, 5), "x" * 65_000),
        (behind_references({"allOf": [{"patternProperties": {MANY_WAYS: {}}}] * 5}, 5), {"x" * 65_000: 1}),
        (behind_references({"allOf": [{"anyOf": [{"maxLength": 1}, True]}] * 400}, 45), "\\" * 32_000),
    ],
)
def test_no_keyword_is_dearer_than_its_steps(schema: dict[str, Any], value: Any) -> None:
    """Missing names that another part forgives, long values compared again and again: an answer of kilobytes."""
    begun = time.process_time()
    errors(schema, {"a": value})
    assert time.process_time() - begun < 2.0
