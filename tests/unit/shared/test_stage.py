"""What services agree on about workspaces: digests, the tools of the house, and permits of each mode."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic_core import to_json

from placet.contracts.canonical import canonical_text, entry_digest, tree_digest
from placet.contracts.errors import SecurityAlert
from placet.contracts.messages import CommitArguments, StagedCall, ToolCallPermitted
from placet.contracts.permit import Permit, PermitMode, issue_permit, issue_staged_permit, verify_permit
from placet.contracts.signing import Purpose, Signer, Verifier, create_keys, load_signer, load_verifier
from placet.domain.catalog import validate_arguments
from placet.domain.house_tools import COMMIT_SPEC, commit_summary
from tests.builders import NOON, a_call, a_result, an_approval_rule
from tests.support.approval_builders import a_request

#: Digests of nothing in particular.
ONE, TWO = "1" * 64, "2" * 64


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys of every issuer."""
    directory = tmp_path_factory.mktemp("keys")
    create_keys(directory)
    return directory


@pytest.fixture(scope="module")
def signer(keys: Path) -> Signer:
    """Policy or approval: both may sign permits."""
    return load_signer(keys, "approval")


@pytest.fixture(scope="module")
def verifier(keys: Path) -> Verifier:
    """What an executor has."""
    return load_verifier(keys)


def test_the_digest_of_a_tree_names_entries_and_their_order() -> None:
    """Another order, another entry and another content are another tree."""
    trees = [[("a", ONE), ("b", TWO)], [("b", TWO), ("a", ONE)], [("a", ONE)], [("a", TWO), ("b", TWO)]]
    assert 4 == len({tree_digest(tree) for tree in trees})


def test_the_digest_of_an_entry_names_what_it_changes() -> None:
    """The same call over another base is another entry."""
    change: dict[str, object] = {"pack": "files", "key": "a.txt", "base": None, "after": ONE, "mode": None}
    digests = {entry_digest(ONE, changes) for changes in ([], [change], [{**change, "base": TWO}])}
    assert 3 == len(digests)


def test_arguments_of_a_commit_fit_the_tool() -> None:
    """What the agent writes as CommitArguments is what the schema of `commit_changes` asks for."""
    arguments = CommitArguments(workspace_id="w1", tree_digest=ONE, entries=["call-1"])
    assert [] == validate_arguments(COMMIT_SPEC, arguments.model_dump(mode="json"))
    assert '{"entries":["call-1"],' in canonical_text(arguments.model_dump(mode="json"))


@pytest.mark.parametrize(
    ("language", "changes", "calls", "expected"),
    [
        ("en", 1, 0, "Apply 1 change"),
        ("en", 2, 1, "Apply 2 changes and run 1 call"),
        ("de", 1, 3, "1 Änderung übernehmen und 3 Aufrufe ausführen"),
        ("de", 0, 1, "1 Aufruf ausführen"),
        ("tr", 3, 2, "3 değişikliği uygula ve 2 çağrıyı çalıştır"),
        ("fr", 0, 2, "Run 2 calls"),
    ],
)
def test_the_summary_of_a_commit_counts(language: str, changes: int, calls: int, expected: str) -> None:
    """In the visitor's language, in English where there is none."""
    assert expected == commit_summary(language, changes=changes, calls=calls)


def test_a_permit_to_run_says_nothing_of_modes(signer: Signer, verifier: Verifier) -> None:
    """The token of a call that is not staged carries no byte more."""
    token = issue_permit(signer, a_call(), pool="default", reference="v1", now=NOON, lifetime_seconds=60)
    assert set() == {"mode", "commit", "on_failure"} & verifier.verify(Purpose.PERMIT, token).keys()


def test_what_is_not_staged_says_nothing_of_staging() -> None:
    """The messages of a call that is not staged carry no byte more."""
    call = a_call()
    permitted = ToolCallPermitted(tenant="acme", pool="default", call=call, permit="x")
    said = to_json([permitted, a_result(call), a_request(call), an_approval_rule()])
    assert [] == [name for name in (b'"plan"', b'"staged"', b'"also"', b'"mode"') if name in said]


@pytest.mark.parametrize("mode", ["stage", "commit", "staged_call"])
def test_a_permit_is_good_for_its_mode_alone(signer: Signer, verifier: Verifier, mode: PermitMode) -> None:
    """A permit to stage never runs a call, and an executor that asks for one mode gets no other."""
    call = a_call()
    token = issue_permit(signer, call, pool="default", reference="v1", now=NOON, lifetime_seconds=60, mode=mode)
    assert mode == verify_permit(verifier, token, call, pool="default", modes=(mode,)).mode
    with pytest.raises(SecurityAlert):
        verify_permit(verifier, token, call, pool="default")


def test_the_permit_of_a_staged_call_names_its_commit_and_its_place(signer: Signer, verifier: Verifier) -> None:
    """It binds digest and agent of the staged call, comes after the one before it, and has an id of its own."""
    call, commit = a_call(), a_call().model_copy(update={"call_id": "commit-1"})
    staged = StagedCall(
        call_id=call.call_id,
        tool=call.tool,
        pool="default",
        digest=call.digest,
        requester=call.requester,
        message_id=call.message_id,
        on_failure="go_on",
    )
    token = issue_staged_permit(
        signer, staged, commit=commit, reference="a1", now=NOON, lifetime_seconds=60, after="commit-1"
    )
    permit = verify_permit(verifier, token, call, pool="default", modes=("staged_call",))
    first = Permit.model_validate(
        verifier.verify(
            Purpose.PERMIT,
            issue_permit(signer, call, pool="default", reference="v1", now=NOON, lifetime_seconds=60, mode="stage"),
        )
    )
    others = call.model_copy(update={"agent": "another-agent"})
    with pytest.raises(SecurityAlert):
        verify_permit(verifier, token, others, pool="default", modes=("staged_call",))
    assert ("commit-1", ["commit-1"], "go_on") == (permit.commit, permit.after, permit.on_failure)
    assert first.jti != permit.jti
