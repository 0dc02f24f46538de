"""YAML with places: what plain text means, and where each value stands."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from placet.domain.yaml_source import (
    NODES_MAX,
    SOURCE_BYTES_MAX,
    Problem,
    RulebookInvalid,
    YamlSource,
    parse_yaml,
    read_yaml,
)


def a_source(text: str) -> YamlSource:
    """Return the parsed text of a file called `f`."""
    return parse_yaml("f", text.encode())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("True", "True"),
        ("~", None),
        ("", None),
        ("010", 10),
        ("-3", -3),
        ("1e3", 1000.0),
        (".5", 0.5),
        (".inf", ".inf"),
        ("0x10", "0x10"),
        ("2026-01-01", "2026-01-01"),
        ("1_000", "1_000"),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("<<", "<<"),
        ("9" * 25, float("9" * 25)),
    ],
)
def test_plain_text_means_what_yaml_1_2_says(text: str, value: Any) -> None:
    """Country codes and dates stay text; only null, true, false and numbers are something else."""
    read = a_source(f"key: {text}").data["key"]

    assert (value, type(value)) == (read, type(read))


def test_digest_is_that_of_the_bytes() -> None:
    """A byte order mark is passed over in the text and counts in the digest."""
    content = b"\xef\xbb\xbfa: 1\n"

    source = parse_yaml("f", content)

    assert ({"a": 1}, hashlib.sha256(content).hexdigest()) == (source.data, source.digest)


def test_alias_repeats_a_value() -> None:
    """A value may be written once and used twice."""
    assert {"a": [1], "b": [1]} == a_source("a: &x [1]\nb: *x\n").data


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("when: ab + cd", 1, 12),
        ("when: 'ab + cd'", 1, 13),
        ("when: 'it''s + cd'", 1, 16),
        ('when: "\\"b + cd"', 1, 14),
        ("when: |\n  ab +\n    cd\n", 3, 5),
        ("when: >- # why\n  ab\n\n  +\n  cd\n", 5, 3),
        ("when: ab\n  + cd", 2, 5),
        ("'k': 1\r\nwhen: |\r\n  ab +\r\n  cd\r\n", 4, 3),
        ("x: 'é😀'\nwhen: 'é😀 + cd'", 2, 13),
    ],
)
def test_place_inside_a_text_is_found_in_every_style(text: str, line: int, column: int) -> None:
    """A problem at the `c` of a text is shown at that very character of the file."""
    source = a_source(text)

    source.report(("when",), "here", inside=source.data["when"].index("cd"))

    assert [Problem("f", line, column, "here")] == source.problems


def test_place_behind_the_end_of_a_text_follows_its_last_character() -> None:
    """An expression that is cut off is wrong where it ends."""
    source = a_source("when: |\n  ab +\n")

    source.report(("when",), "here", inside=5)

    assert [Problem("f", 2, 7, "here")] == source.problems


def test_place_of_a_missing_value_is_the_key_of_the_nearest_one() -> None:
    """What is not there is shown at the key that should have held it."""
    source = a_source("a:\n  b:\n    c: 1\n")

    source.report(("a", "b", "d", 3), "missing")

    assert [Problem("f", 2, 3, "missing")] == source.problems


def test_problems_are_shown_in_the_order_of_the_file() -> None:
    """However they were found, they are read from top to bottom, each once."""
    source = a_source("a: 1\nb: 2\n")
    for steps in (("b",), ("a",), ("b",)):
        source.report(steps, "wrong")

    with pytest.raises(RulebookInvalid) as caught:
        source.check()

    assert "f:1:4: wrong\nf:2:4: wrong" == str(caught.value)


def test_check_without_problems_passes() -> None:
    """A file in which nothing is wrong is used."""
    source = a_source("a: 1")

    source.check()

    assert [] == source.problems


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            b"a: 1\nb: [\n",
            "f:3:1: while parsing a flow node: expected the node content, but found '<stream end>'",
        ),
        (b"a: *b\n", "f:1:4: found undefined alias 'b'"),
        (b"a: 1\n---\nb: 1\n", "f:2:1: expected a single document in the stream: but found another document"),
        (b"a: \xc3\xa9\xff\n", "f:1:5: not UTF-8 text"),
        (b"#" * (SOURCE_BYTES_MAX + 1), f"f:1:1: larger than {SOURCE_BYTES_MAX} bytes"),
        (
            b"a: &a " + b"x" * 300_000 + b"\nb: [" + b"*a," * 1_000 + b"]\n",
            "f:1:4: aliases make the document too large",
        ),
        (
            b"a: {? &a " + b"x" * 300_000 + b"\n : 0}\nb: [" + b"{*a : 0}," * 1_000 + b"]\n",
            "f:1:7: aliases make the document too large",
        ),
        (b"a: [" + b"0," * NODES_MAX + b"]", f"f:1:{5 + 2 * (NODES_MAX - 3)}: more than {NODES_MAX} values"),
    ],
)
def test_text_that_is_no_yaml_is_told_with_its_place(content: bytes, problem: str) -> None:
    """Reading stops at the first character that cannot be understood, and within bounds."""
    with pytest.raises(RulebookInvalid) as caught:
        parse_yaml("f", content)

    assert problem == str(caught.value)


def test_file_that_cannot_be_read_is_told(tmp_path: Any) -> None:
    """The reason of the operating system is shown with the file's name."""
    with pytest.raises(RulebookInvalid, match="1:1: cannot be read: No such file or directory"):
        read_yaml(tmp_path / "absent.yaml")
