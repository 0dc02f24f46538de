"""Exports of the audit chain: whole whatever is wrong with a block, and verified in little memory."""

from __future__ import annotations

import json
import tracemalloc
from base64 import urlsafe_b64encode

import pytest

from placet.cli import audit
from placet.contracts.signing import create_keys, load_signer, load_verifier, public_keys, publish_keys
from placet.gateway.audit.sealing import Sealer
from tests.integration.gateway.test_audit_chain import Chain
from tests.integration.gateway.test_audit_chain import chain as _chain

chain = _chain


async def test_an_export_has_the_rows_of_blocks_that_no_key_verifies(chain: Chain) -> None:
    """A key was taken back: they are printed and named, and whoever has a copy of the old keys verifies them."""
    create_keys(new := chain.folder / "new")
    chain.sealer = Sealer(chain.sealer.database, load_signer(new, "gateway"), load_verifier(new))
    chain.write("approval")
    await chain.sealer.seal()
    copy, chain.keys = chain.keys, new
    told = chain.audit("export", "--tenant", "acme", "--database", chain.url)
    assert (1, True) == (told.returncode, "no key here verifies 2 blocks from 1 to 2" in told.stderr)
    publish_keys(copy, [*public_keys(copy), *public_keys(new)])
    chain.keys = copy
    assert told.stdout == chain.export().read_text()
    assert ([], 14) == (chain.problems(str(chain.export())), len(told.stdout.splitlines()))


@pytest.mark.parametrize("upto", ['{"approval": 1e400}', '{"approval": 9999999999999999999}', "[]", "null"])
async def test_a_checkpoint_that_says_anything_leaves_the_rest_of_an_export(chain: Chain, upto: str) -> None:
    """What nobody signed is named, and no row of another block is printed twice or left out."""
    before = chain.export().read_text()
    said = (
        '{"iss": "gateway", "tenant": "acme", "number": 3, "previous": "", "rows": 1, "root": "", "after": {}, "upto": '
    )
    token = f"x.{urlsafe_b64encode((said + upto + '}').encode()).decode()}.x"
    chain.tamper(f"INSERT INTO gateway.checkpoints (tenant, number, token) VALUES ('acme', 3, '{token}')")  # noqa: S608 - ours
    told = chain.audit("export", "--tenant", "acme", "--database", chain.url)
    assert (1, before) == (told.returncode, "".join(told.stdout.splitlines(keepends=True)[:-1]))
    assert "no key here verifies 1 blocks from 3 to 3" in told.stderr


async def test_a_file_is_verified_line_by_line(chain: Chain) -> None:
    """An export may be larger than memory; empty lines say nothing, and other encodings are none of ours."""
    file = chain.export()
    whole = file.read_bytes()
    file.write_bytes(b"\n" + whole + b"\n\n")
    assert [] == chain.problems(str(file))
    file.write_bytes(whole.decode().encode("utf-16"))
    assert (1, "") == ((told := chain.audit("verify", str(file))).returncode, told.stdout)
    tracemalloc.start()
    file.write_bytes(whole)
    with file.open("ab") as more:
        more.writelines(b'{"event": "x", "text": "%b"}\n' % (b"x" * 1000) for _ in range(20_000))
    assert 20_012 == sum(1 for _ in audit._entries(file))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < file.stat().st_size / 4


@pytest.mark.parametrize("place", [[True, True], [1.0, 1.0], [1, True], ["1", "1"], [[1], 1], None])
async def test_a_place_is_two_whole_numbers(chain: Chain, place: object) -> None:
    """What only equals them is no place that an export has."""
    file = chain.export()
    lines = file.read_text().splitlines()
    assert [1, 1] == json.loads(lines[1])["place"]
    lines[1] = json.dumps({**json.loads(lines[1]), "place": place})
    file.write_text("\n".join(lines) + "\n")
    assert ["acme: rows of block 1 do not stand in their places"] == chain.problems(str(file))


async def test_only_lines_of_ours_are_kept(chain: Chain) -> None:
    """Whatever stands between them is passed over; a line of ours that is damaged is named."""
    lines = chain.export().read_text().splitlines()
    others = ['{"event": "x", "row": 5}', '{"checkpoint": "starting"}', '{"checkpoint": 5}', '{"a": 1, "a": 2}']
    others += [json.dumps({**json.loads(lines[0]), "event": "x"}), "[" * 100_000, f'{{"a": {"1" * 5000}}}', "[]", "7"]
    kept = chain.folder / "kept.jsonl"
    verify = ("--database", chain.url, "--kept", str(kept))
    kept.write_text("\n".join([*others, *lines, *others]) + "\n")
    assert [] == chain.problems(*verify)
    kept.write_text("\n".join(others) + "\n")
    assert 2 == chain.audit("verify", *verify).returncode
    token = json.loads(lines[-1])["checkpoint"]
    for damaged in (
        json.dumps({"checkpoint": f"{token}A"}),
        json.dumps({**json.loads(lines[0]), "row": 5}),
        f'{{"checkpoint": "x", {lines[-1].removeprefix("{")}',
    ):
        kept.write_text("\n".join([*lines, damaged]) + "\n")
        assert 1 == chain.audit("verify", *verify).returncode, damaged
