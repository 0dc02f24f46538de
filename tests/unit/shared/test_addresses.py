"""How addresses and ids are compared."""

from __future__ import annotations

from placet.domain.addresses import without_case


def test_only_ascii_letters_have_a_case() -> None:
    """No other character of Unicode becomes an ASCII one, or anything else."""
    others = "".join(map(chr, [*range(0x80, 0xD800), *range(0xE000, 0x110000)]))
    assert ("ada@example.org[`{", others) == (without_case("ADA@Example.ORG[`{"), without_case(others))
