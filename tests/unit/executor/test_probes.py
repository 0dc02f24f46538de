"""What a probe says is bounded, and whatever is no clear finding tells nothing."""

from __future__ import annotations

from placet.tools import CannotTell
from placet.tools.probes import LoadedProbe
from placet.tools.replies import TEXT_CHARACTERS_MAX
from placet.tools.signatures import read_signature
from tests.support.tool_builders import a_context, a_schema, a_spec


async def test_the_text_of_a_finding_is_fit_to_be_stored() -> None:
    """People and the model read its beginning, without what no database keeps."""

    async def look() -> CannotTell:
        return CannotTell("a\x00" + "x" * 2 * TEXT_CHARACTERS_MAX)

    schema = a_schema()
    probe = LoadedProbe(a_spec("sample", schema, None), "tests", look, read_signature(look, schema))
    assert CannotTell("a" + "x" * (TEXT_CHARACTERS_MAX - 2) + "…") == await probe.find({}, a_context())
