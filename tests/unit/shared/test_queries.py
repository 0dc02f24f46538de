"""SQL by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.runtime.queries import load_queries, query


def test_parameters_are_numbered_by_their_first_place() -> None:
    """The same name is the same parameter; casts, strings and comments are none."""
    found = query("q", "SELECT :a::text, 'it''s :no', x[1:2], :b -- :no\n WHERE a = :a;")
    assert ("SELECT $1::text, 'it''s :no', x[1:2], $2 \n WHERE a = $1", ("a", "b")) == (found.text, found.parameters)


def test_values_are_given_by_name_and_none_is_missing() -> None:
    """A parameter that is missing, or that the statement does not have, is an error that names both."""
    found = query("q", "SELECT :a, :b")
    assert [1, 2] == found.values({"b": 2, "a": 1})
    with pytest.raises(TypeError, match="q takes"):
        found.values({"a": 1})
    with pytest.raises(TypeError, match="'c'"):
        found.values({"a": 1, "b": 2, "c": 3})


def test_a_file_holds_statements_by_name(tmp_path: Path) -> None:
    """Each ends where the next begins; an unknown name and one that is there twice are errors."""
    (tmp_path / "queries.sql").write_text("-- All of it.\n-- name: one\nSELECT 1;\n\n-- name: two\nSELECT :x\n")
    queries = load_queries(str(tmp_path / "store.py"))
    assert ("SELECT 1", "SELECT $1") == (queries.one.text, queries.two.text)
    with pytest.raises(AttributeError, match="three"):
        _ = queries.three
    (tmp_path / "queries.sql").write_text("-- name: one\nSELECT 1\n-- name: one\nSELECT 2\n")
    with pytest.raises(ValueError, match="twice"):
        load_queries(str(tmp_path / "store.py"))
