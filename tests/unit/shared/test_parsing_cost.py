"""What parsers of foreign bytes cost against the size of what they are given."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import QueryParams

from placet.contracts.canonical import NotStrictJson, canonical_text, parse_strictly
from placet.contracts.dead_letters import events_in
from placet.contracts.errors import Refused
from placet.domain.yaml_source import RulebookInvalid, parse_yaml
from placet.gateway.approvals.bounces import read_bounce
from placet.gateway.http.errors import BodyTooLarge
from placet.gateway.http.strict import OUTSIDE_TEXTS_MAX, _refuse_faults, _refuse_unknown, _strict_value
from placet.gateway.jobs.schemas import JobIn
from placet.runtime.consumer import read_envelope
from tests.support.cost import BOUND, FACTOR, growth, seconds


def keys(number: int) -> str:
    """Return an object of many keys, the last of which is there twice."""
    return "{" + ",".join(f'"key{each}":0' for each in (*range(number), number - 1)) + "}"


def same_keys(number: int) -> str:
    """Return an object with one key again and again."""
    return "{" + ",".join(['"a":0'] * number) + "}"


def objects(number: int) -> str:
    """Return a list of objects, numbers and texts with escapes."""
    return json.dumps([{"ü": each, "b": [None, 1.5, "\u0001" * 9]} for each in range(number)])


def endless(number: int) -> str:
    """Return a text of escaped quotes that never ends, and ends with half an escape."""
    return '{"a": "' + '\\"' * number * 10 + "\\"


def brackets(number: int) -> str:
    """Return what is nested as deeply as it is long."""
    return "[" * number + "]" * number


def events(number: int) -> str:
    """Return an envelope of one event with large data that is none we know."""
    return json.dumps([{"id": "1", "data": {f"key{each}": [each] for each in range(number)}}])


def yaml_keys(number: int) -> str:
    """Return a mapping with every key there twice."""
    return "".join(f"key{each // 2}: [{each}]\n" for each in range(number))


def yaml_lines(number: int) -> str:
    """Return one long text over many lines."""
    return "a: |\n" + "  x\n" * number


def mail_parts(number: int) -> str:
    """Return a mail that is nested as deeply as it is long, by lines that say nothing."""
    parts = "".join(f"Content-Type: multipart/report; boundary={each}\n\n--{each}\n" for each in range(number // 8))
    return parts + "\n" * number * 40


def mail_encoded(number: int) -> str:
    """Return a report with nested parts where the headers of a mail should be, encoded."""
    head = "Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: text/rfc822-headers\n"
    encoded = base64.encodebytes(mail_parts(number).encode()).decode()
    return f"{head}Content-Transfer-Encoding: base64\n\n{encoded}"


def mail_in_a_codec(number: int) -> str:
    """Return a report with a text in a codec of the sender's choice."""
    head = "Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: text/plain; charset=punycode\n\n"
    return f"{head}\u00e9{'a' * number * 40}\n--b--\n"


PARSERS: dict[str, tuple[Callable[[str], Any], int]] = {
    "strict JSON": (parse_strictly, 1_000),
    "HTTP body": (lambda text: _strict_value(text.encode()), 1_000),
    "history": (lambda text: _strict_value(text.encode()), 25_000),
    "canonical form": (lambda text: canonical_text(json.loads(text)), 500),
    "envelope": (lambda text: read_envelope(text.encode()), 1_000),
    "dead letter": (events_in, 1_000),
    "query": (lambda text: _refuse_unknown(QueryParams(text.replace(",", "&").replace('"', "")), {"a"}), 1_000),
    "YAML": (lambda text: parse_yaml("x", text.encode()), 250),
    "mail": (lambda text: read_bounce(text.encode()), 400),
}
SHAPES: dict[str, tuple[Callable[[int], str], ...]] = {
    "JSON": (keys, same_keys, objects, brackets, events, endless),
    "YAML": (yaml_keys, yaml_lines, same_keys, objects, brackets),
    "mail": (mail_parts, mail_encoded, mail_in_a_codec),
}


def parsed(parse: Callable[[str], Any], text: str) -> None:
    """Parse it, whatever is wrong with it."""
    with suppress(
        BodyTooLarge, NotStrictJson, RequestValidationError, RulebookInvalid, Refused, ValueError, RecursionError
    ):
        parse(text)


@pytest.mark.parametrize(
    ("parser", "shape"),
    [(name, shape) for name in PARSERS for shape in SHAPES.get(name, SHAPES["JSON"])],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_cost_grows_no_faster_than_size(parser: str, shape: Callable[[int], str]) -> None:
    """Eight times the bytes cost about eight times the time, whatever is wrong with them."""
    parse, number = PARSERS[parser]
    small, large = shape(number), shape(number * FACTOR)
    assert growth(lambda: parsed(parse, small), lambda: parsed(parse, large)) <= BOUND


@pytest.mark.parametrize("value", ["1", "{}", '""', '{"a": 0}'])
def test_a_large_body_has_no_more_values_than_another(value: str) -> None:
    """Its texts may be long; what else it has is refused before it is parsed."""
    texts = json.dumps(["x" * OUTSIDE_TEXTS_MAX, '"\\' * OUTSIDE_TEXTS_MAX])
    values = f"[{','.join([value] * OUTSIDE_TEXTS_MAX)}]"
    assert texts == json.dumps(_strict_value(texts.encode()))
    with pytest.raises(BodyTooLarge, match="262144 bytes outside of its texts"):
        _strict_value(values.encode())


def test_bytes_of_another_encoding_are_no_json() -> None:
    """Two readers could read them differently."""
    for encoding in ("utf-16", "utf-32-le", "utf-8-sig"):
        with pytest.raises(NotStrictJson):
            parse_strictly('{"a": 1}'.encode(encoding))


@pytest.mark.parametrize(
    "body",
    [{f"key{each}": 0 for each in range(20_000)}, {"task": "x", "outputs": [0] * 60_000}],
    ids=["names", "values"],
)
def test_faults_are_counted_before_they_are_described(body: dict[str, Any]) -> None:
    """What is wrong in thousands of places is refused for less than half of what describing each of them costs."""
    model = TypeAdapter[Any](JobIn)

    def described() -> None:
        with pytest.raises(ValidationError) as caught:
            model.validate_python(body)
        caught.value.errors()

    def refused() -> None:
        with pytest.raises(RequestValidationError, match="more than 200 things"):
            _refuse_faults(model, body)

    assert seconds(refused) < seconds(described) / 2
