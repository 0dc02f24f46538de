"""The tool catalogue: one description of each tool for every service."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from placet.contracts.messages.tool_calls import Category
from placet.domain.catalog import (
    Catalog,
    ToolSpec,
    load_catalog,
    redact_arguments,
    render_summary,
    shown_text,
    validate_arguments,
)
from placet.domain.tool_schema import ArgumentError
from placet.domain.yaml_source import RulebookInvalid

SHOP = Path(__file__).parents[3] / "deploy" / "rulebook.yaml"
PAY = {
    "amount": {"type": "number"},
    "currency": {"type": "string", "default": "TRY"},
    "card": {"type": "object"},
}


def a_tool(**fields: Any) -> ToolSpec:
    """Return a tool that pays."""
    return ToolSpec.model_validate(
        {
            "name": "pay",
            "description": "Pay somebody.",
            "parameters": {"type": "object", "properties": PAY, "required": ["amount"]},
            "category": "unsafe_api",
        }
        | fields
    )


def test_tool_that_says_little_gets_the_defaults() -> None:
    """Only what a tool is and takes must be said."""
    spec = a_tool()

    assert (None, "default", 30.0, False, [], None, Category.UNSAFE_API) == (
        spec.function,
        spec.pool,
        spec.timeout_seconds,
        spec.idempotent,
        spec.redact,
        spec.summary,
        spec.category,
    )


def test_schema_digest_is_that_of_the_canonical_json() -> None:
    """Anybody can compute the digest: SHA-256 over RFC 8785 JSON of name and enforced parameters."""
    text = '{"name":"f","parameters":{"additionalProperties":false,"properties":{"a":{"minimum":1}},"type":"object"}}'

    spec = a_tool(name="f", parameters={"type": "object", "properties": {"a": {"minimum": 1.0}}})

    assert hashlib.sha256(text.encode()).hexdigest() == spec.schema_digest


def test_schema_digest_changes_with_name_and_parameters_only() -> None:
    """Another schema is another tool; another description, category or timeout is not."""
    other_schema = {"type": "object", "properties": PAY}

    assert a_tool().schema_digest == a_tool(description="Other.", category="safe_read", timeout_seconds=5).schema_digest
    assert 3 == len({spec.schema_digest for spec in (a_tool(), a_tool(name="pay2"), a_tool(parameters=other_schema))})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "pay money"),
        ("name", "x" * 65),
        ("description", ""),
        ("parameters", {"type": "array"}),
        ("parameters", {"type": "object", "properties": {"a": {"maximum": 2**60}}}),
        ("category", "unsafe"),
        ("function", "shop.pay"),
        ("function", "shop:pay()"),
        ("pool", "Payments"),
        ("timeout_seconds", 0),
        ("timeout_seconds", True),
        ("idempotent", "yes"),
        ("redact", ["amount"]),
        ("redact", ["/absent"]),
        ("summary", {"english": "Pay?"}),
        ("summary", {}),
        ("summary", "Pay {absent}?"),
        ("colour", "red"),
    ],
)
def test_invalid_field_is_refused(field: str, value: Any) -> None:
    """A tool that cannot be called, run or shown as its author meant does not exist."""
    with pytest.raises(ValidationError):
        a_tool(**{field: value})


def test_tool_is_frozen() -> None:
    """Nobody changes a tool after it was checked."""
    with pytest.raises(ValidationError):
        a_tool().category = Category.SAFE_READ  # type: ignore[misc]


def test_valid_arguments_have_no_errors() -> None:
    """Fitting arguments pass."""
    assert [] == validate_arguments(a_tool(), {"amount": 299})


def test_invalid_arguments_are_told_without_redacted_values() -> None:
    """Each error says where it is; secrets are not quoted."""
    errors = validate_arguments(a_tool(redact=["/currency"]), {"amount": "many", "currency": 949})

    assert [
        ArgumentError("/amount", "'many' is not of type 'number'"),
        ArgumentError("/currency", 'does not satisfy type: "string"'),
    ] == errors


def test_schema_is_compiled_once() -> None:
    """Validation is on the path of every call."""
    spec = a_tool()

    assert spec.validator is spec.validator


def test_redaction_leaves_the_original_alone() -> None:
    """What people see is a copy; absent pointers and lists are handled."""
    spec = a_tool(redact=["/card/number", "/card/codes/1", "/card/codes/9", "/currency", "/card/a~1b/c"])
    arguments = {"amount": 1, "card": {"number": "4111", "codes": ["x", "y"], "a/b": {"c": "z"}}}

    redacted = redact_arguments(spec, arguments)

    assert {"amount": 1, "card": {"number": "•••", "codes": ["x", "•••"], "a/b": {"c": "•••"}}} == redacted
    assert {"number": "4111", "codes": ["x", "y"], "a/b": {"c": "z"}} == arguments["card"]


@pytest.mark.parametrize("card", ["4111", 4111, ["4111", {"number": "4111"}]])
def test_value_of_another_shape_than_the_pointer_is_masked_whole(card: Any) -> None:
    """What a pointer cannot lead through may hold the secret anywhere."""
    assert {"amount": 1, "card": "•••"} == redact_arguments(
        a_tool(redact=["/card/number"]), {"amount": 1, "card": card}
    )


def test_shown_text_is_the_text_itself_or_what_is_left_of_it() -> None:
    """One text for every surface: the very bytes, or canonical JSON with secrets masked."""
    text, arguments = '{"currency":"TRY", "amount":1}', {"currency": "TRY", "amount": 1}
    shown = [shown_text(spec, text, arguments) for spec in (a_tool(), a_tool(redact=["/currency"]))]
    assert [text, '{"amount":1,"currency":"•••"}'] == shown


@pytest.mark.parametrize(
    ("language", "text"),
    [("de", "299 TRY zahlen?"), ("en", "Pay 299 TRY?"), ("fr", "Pay 299 TRY?"), ("", "Pay 299 TRY?")],
)
def test_summary_falls_back_to_english(language: str, text: str) -> None:
    """A language without a text gets the English one; a default that the tool will use is shown."""
    spec = a_tool(summary={"de": "{amount} {currency} zahlen?", "en": "Pay {amount} {currency}?"})

    assert text == render_summary(spec, {"amount": 299}, language)


def test_summary_without_english_falls_back_to_the_first() -> None:
    """A catalogue in one language serves everybody in it."""
    assert "299 zahlen?" == render_summary(a_tool(summary={"de": "{amount} zahlen?"}), {"amount": 299}, "tr")


def test_summary_without_template_shows_the_call_redacted() -> None:
    """Without a text people see the call itself, and no secrets."""
    assert "pay(amount: •••, currency: TRY)" == render_summary(a_tool(redact=["/amount"]), {"amount": 299}, "en")


def test_catalog_is_a_mapping_in_the_order_of_the_file() -> None:
    """Tools are looked up by name and listed as written."""
    catalog = Catalog([a_tool(name="b"), a_tool(name="a")])

    assert (["b", "a"], 2, "a", None) == (list(catalog), len(catalog), catalog["a"].name, catalog.get("c"))


def test_tools_for_the_model_are_a_copy() -> None:
    """A model library that edits its request does not change the catalogue."""
    catalog = Catalog([a_tool()])
    before = catalog["pay"].model_dump()

    tools = catalog.as_openai_tools()
    assert {"name": "pay", "description": "Pay somebody.", "parameters": before["parameters"]} == tools[0]["function"]
    tools[0]["function"]["parameters"]["properties"].clear()

    assert before == catalog["pay"].model_dump()


def test_catalog_is_read_without_looking_at_the_rules(tmp_path: Path) -> None:
    """Services that do not judge need the tools only."""
    path = tmp_path / "rulebook.yaml"
    path.write_text("tools: {look: {description: Look., category: safe_read, parameters: {type: object}}}\nrules: 5\n")

    assert ["look"] == list(load_catalog(path))


def test_invalid_tool_is_told_with_its_place(tmp_path: Path) -> None:
    """Every service refuses to start with the same line."""
    path = tmp_path / "rulebook.yaml"
    path.write_text("tools:\n  look: {description: Look., category: safe, parameters: {type: object}}\n")

    with pytest.raises(RulebookInvalid) as caught:
        load_catalog(path)

    assert str(caught.value).startswith(f"{path}:2:40: 'category' should be 'safe_read', ")


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Create a payment link over 299 TRY?"),
        ("de", "Zahlungslink über 299 TRY erstellen?"),
        ("tr", "299 TRY tutarında ödeme bağlantısı oluşturulsun mu?"),
    ],
)
def test_payment_card_of_the_shop_is_in_the_language_of_the_visitor(language: str, text: str) -> None:
    """The card says what will happen."""
    spec = load_catalog(SHOP)["create_pay_link"]

    assert text == render_summary(spec, {"amount": 299, "currency": "TRY"}, language)


@pytest.mark.parametrize(
    ("tool", "arguments", "pointers"),
    [
        ("search_products", {}, []),
        ("search_products", {"text": "shoes", "max_price": 0, "on_sale": True, "in_stock_only": False}, []),
        ("search_products", {"max_price": -1, "brand": "x"}, ["", "/max_price"]),
        ("add_to_cart", {"product_id": "p1", "variant_id": "v1", "quantity": 99}, []),
        ("add_to_cart", {"quantity": 100}, ["", "/quantity"]),
        ("create_pay_link", {"amount": 0.01, "currency": "EUR", "note": "Order 5"}, []),
        ("create_pay_link", {"amount": 0, "currency": "GBP"}, ["/amount", "/currency"]),
        ("create_pay_link", {"amount": 100_000.01, "currency": "USD"}, ["/amount"]),
        ("collect_lead", {"email": "ada@example.org"}, []),
        ("collect_lead", {}, [""]),
        ("collect_lead", {"email": "ada"}, ["/email"]),
        ("escalate_to_human", {"reason": "wants a person"}, []),
        ("escalate_to_human", {}, [""]),
    ],
)
def test_shop_tools_take_the_arguments_they_should(tool: str, arguments: dict[str, Any], pointers: list[str]) -> None:
    """The schemas of the shop admit what the tools can do and nothing else."""
    spec = load_catalog(SHOP)[tool]

    assert pointers == [error.pointer for error in validate_arguments(spec, arguments)]
