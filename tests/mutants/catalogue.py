"""The bugs that are planted, one defence each, and the tests that must catch it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """One defence that is broken."""

    name: str
    #: What the code does with it.
    says: str
    path: str
    #: Occurs once in the file, and is replaced.
    before: str
    after: str
    #: Files of tests of which one must fail.
    tests: tuple[str, ...]


_PERMITS = ("tests/integration/executor/test_permits.py",)
_CLAIMS = ("tests/integration/executor/test_claims.py", *_PERMITS)
_QUERIES = "services/executor/store/queries.sql"
_DECISIONS = "services/approval/rules/decisions.py"
_APPROVAL = ("tests/unit/approval",)
_POLICY = ("tests/unit/policy",)
_CHAIN = ("tests/unit/shared/test_chain.py",)
_PERMIT = ("tests/unit/shared/test_permit.py", *_PERMITS)

MUTANTS = (
    Mutant(
        "expired-permit",
        "a permit runs a call after its end",
        "services/executor/rules.py",
        "return too_late() if permit.expired(now) else Admission(Event.CLAIMED)",
        "return Admission(Event.CLAIMED)",
        _PERMITS,
    ),
    Mutant(
        "expired-while-waiting",
        "a permit that ends while its claim waits for a lock still runs the call",
        _QUERIES,
        "wanted.permit_expires_at <= (SELECT max(at) FROM taken) AS late",
        "false AS late",
        _CLAIMS,
    ),
    Mutant(
        "revoked-key",
        "a yes given with a key that is revoked by now still counts at the claim",
        _QUERIES,
        "AND k.revoked_at IS NOT NULL LIMIT 1",
        "AND false LIMIT 1",
        _PERMITS,
    ),
    Mutant(
        "stop-not-read",
        "an emergency stop is not read at the claim",
        _QUERIES,
        "WHERE wanted.state = 'running' AND coalesce(s.tenant",
        "WHERE false AND coalesce(s.tenant",
        ("tests/integration/executor/test_stops.py",),
    ),
    Mutant(
        "stopped-is-repeated",
        "a lost attempt is repeated although its tool is stopped",
        _QUERIES,
        "AND coalesce(s.tool = executions.tool, true)\n",
        "AND false\n",
        ("tests/integration/executor/test_stops.py",),
    ),
    Mutant(
        "settle-without-fence",
        "an older attempt settles over a newer one",
        _QUERIES,
        "WHERE e.call_id = ended.call_id AND e.fence = ended.fence AND",
        "WHERE e.call_id = ended.call_id AND",
        ("tests/integration/executor/test_settling.py",),
    ),
    Mutant(
        "repeat-what-is-not-safe",
        "a lost call is repeated although its tool is not safe to repeat",
        _QUERIES,
        "AND state = 'running' AND idempotent AND fence < :attempts_max AND permit_expires_at > clock_timestamp()\n"
        "    AND (mode",
        "AND state = 'running' AND fence < :attempts_max AND permit_expires_at > clock_timestamp()\n    AND (mode",
        ("tests/integration/executor/test_sweeper.py",),
    ),
    Mutant(
        "repeat-after-the-end",
        "a lost call is repeated after its permit has expired",
        _QUERIES,
        "AND state = 'running' AND idempotent AND fence < :attempts_max AND permit_expires_at > clock_timestamp()\n"
        "    AND (mode",
        "AND state = 'running' AND idempotent AND fence < :attempts_max\n    AND (mode",
        ("tests/integration/executor/test_sweeper.py",),
    ),
    Mutant(
        "stored-call-believed",
        "what stands in the database is run without looking at its permit again",
        "services/executor/sweeper.py",
        "if doubt := self._doubt(attempt):",
        "if (doubt := self._doubt(attempt)) and not doubt:",
        ("tests/integration/executor/test_sweeper.py",),
    ),
    Mutant(
        "somebody-left",
        "a yes of somebody who was made inactive since still counts at the claim",
        "shared/domain/directory.py",
        "return any(not self.is_active(name_of(person)) for person in {*people, *panels}) or any(",
        "return any(",
        _PERMITS,
    ),
    Mutant(
        "permit-of-another-call",
        "a permit is good for any call",
        "shared/contracts/permit.py",
        "if bound != expected or permit.mode not in modes:",
        "if (bound, expected) == () or permit.mode not in modes:",
        _PERMIT,
    ),
    Mutant(
        "permit-of-another-mode",
        "a permit to stage runs the call",
        "shared/contracts/permit.py",
        "if bound != expected or permit.mode not in modes:",
        "if bound != expected or modes == ():",
        _PERMIT,
    ),
    Mutant(
        "signature-not-checked",
        "a token whose header is known needs no signature",
        "shared/contracts/signing.py",
        "curve.verify(signed, text.encode())",
        "str(curve)",
        (*_PERMIT, "tests/unit/shared/test_signed.py"),
    ),
    Mutant(
        "any-issuer",
        "any service signs for any purpose",
        "shared/contracts/signing.py",
        "if kind != purpose or purpose not in SIGNERS.get(issuer, ()):",
        "if kind != purpose:",
        (*_PERMIT, "tests/unit/shared/test_signed.py"),
    ),
    Mutant(
        "digest-believed",
        "the digest that a call claims is believed",
        "shared/contracts/permit.py",
        "if (call.tenant, call.digest) != (tenant, digest_of(call)):",
        "if call.tenant != tenant:",
        ("tests/integration/policy/test_judging.py", "tests/integration/approval/test_opening.py"),
    ),
    Mutant(
        "decided-after-expiry",
        "a decision counts after the approval has expired",
        _DECISIONS,
        "if now >= approval.expires_at:",
        "if now >= approval.expires_at and approval.closed_at is not None:",
        _APPROVAL,
    ),
    Mutant(
        "stale-card",
        "a decision about other arguments than were shown counts",
        _DECISIONS,
        "if claims.digest != approval.call.digest:",
        "if not claims.digest:",
        _APPROVAL,
    ),
    Mutant(
        "anybody-decides",
        "who is not among the approvers decides",
        _DECISIONS,
        "if not meaning.right(approval, voter, directory):",
        "if meaning.right is None:",
        _APPROVAL,
    ),
    Mutant(
        "weak-proof",
        "who is not known surely enough decides",
        _DECISIONS,
        "if meaning.is_binding and not deciders.strong_enough(",
        "if not meaning.is_binding and not deciders.strong_enough(",
        _APPROVAL,
    ),
    Mutant(
        "two-eyes",
        "the requester approves their own call under four eyes",
        "shared/domain/deciders.py",
        'if "requester" in exclude and not them.isdisjoint(_askers(held, voter)):',
        'if "requester" not in exclude and not them:',
        (*_APPROVAL, "tests/unit/shared/test_deciders.py"),
    ),
    Mutant(
        "changed-tool",
        "a call of a tool that has changed since it was offered is judged",
        "services/policy/rules/verdicts.py",
        "if call.schema_digest != spec.schema_digest:\n        text",
        "if not call.schema_digest:\n        text",
        _POLICY,
    ),
    Mutant(
        "fails-open",
        "a rule that cannot be evaluated is passed over",
        "services/policy/rules/verdicts.py",
        "yield Step(rule, error=error)\n            return",
        "continue",
        _POLICY,
    ),
    Mutant(
        "commit-of-anything",
        "a commit of entries that policy let nobody stage is judged",
        "services/policy/rules/verdicts.py",
        "if why := staging.problem(call.arguments, call.staged):",
        "if (why := staging.problem(call.arguments, call.staged)) and not why:",
        _POLICY,
    ),
    Mutant(
        "grant-of-somebody-without-rights",
        "a grant holds although its owner could not approve the call alone any more",
        "services/policy/rules/grants.py",
        "grant.covers(call.arguments) and decides_alone(grant.owner, call, approval, directory)",
        "grant.covers(call.arguments)",
        (*_POLICY, "tests/integration/policy/test_grants.py"),
    ),
    Mutant(
        "grant-of-other-arguments",
        "a grant lets through arguments that nobody approved",
        "services/policy/rules/grants.py",
        "return canonical_text(rest) == canonical_text(dict(approved))",
        "return bool(canonical_text(rest))",
        _POLICY,
    ),
    Mutant(
        "judged-twice",
        "a second proposal of a call replaces its verdict",
        "services/policy/store/queries.sql",
        "ON CONFLICT (call_id) DO NOTHING RETURNING call_id AS key",
        "ON CONFLICT (call_id) DO UPDATE SET rule = excluded.rule RETURNING call_id AS key",
        ("tests/integration/policy/test_judging.py", "tests/integration/policy/test_together.py"),
    ),
    Mutant(
        "forgotten-before-confirmed",
        "a row of the outbox is forgotten although the broker never confirmed it",
        "shared/runtime/outbox.py",
        "self._failed(events)\n        else:",
        "self._done(way, events)\n        else:",
        ("tests/integration/shared/test_outbox.py", "tests/integration/shared/test_delivery.py"),
    ),
    Mutant(
        "not-mandatory",
        "what no queue takes is lost without a word",
        "shared/runtime/outbox.py",
        "mandatory=way.mandatory,",
        "mandatory=False,",
        ("tests/integration/shared/test_outbox.py", "tests/integration/shared/test_delivery.py"),
    ),
    Mutant(
        "another-tenant-s-conversation",
        "a message of one tenant changes a conversation of another",
        "services/agent/handlers.py",
        "if conversation is None or conversation.tenant != message.tenant:",
        "if conversation is None:",
        ("tests/integration/agent/test_stopping.py", "tests/integration/agent/test_turns.py"),
    ),
    Mutant(
        "forms-of-elsewhere",
        "a form that another site sends counts",
        "services/gateway/web/render.py",
        'if caller.proof == "web_session" and not same_hash(token, caller.form_token):',
        'if caller.proof == "web_session" and token == "forged":',
        ("tests/integration/gateway/test_inbox_page.py", "tests/integration/gateway/test_administration.py"),
    ),
    Mutant(
        "link-used-twice",
        "a mailed link decides twice",
        "services/gateway/approvals/store/links.sql",
        "WHERE link_uses.outcome = 'refused' OR (link_uses.outcome = 'sent'",
        "WHERE link_uses.outcome <> '' OR (link_uses.outcome = 'sent'",
        ("tests/integration/gateway/test_links.py",),
    ),
    Mutant(
        "key-of-somebody-else",
        "a key that an administrator made for somebody else decides in their name",
        "services/gateway/identity/auth.py",
        "if not own and not RESERVED.isdisjoint(scopes):",
        "if not own and RESERVED == scopes:",
        ("tests/integration/gateway/test_keys_for_others.py",),
    ),
    Mutant(
        "other-tenants-rows",
        "an administrator lists what belongs to other tenants",
        "services/gateway/admin/store.py",
        'given |= {"tenant": tenant} if listed.of_tenant else {}',
        'given |= {"tenant": tenant} if not listed.view else {}',
        ("tests/integration/gateway/test_grants.py", "tests/integration/gateway/test_operations.py"),
    ),
    Mutant(
        "out-of-the-root",
        "a staged file is written beside its root",
        "shared/tools/files/paths.py",
        'any(name in {".", ".."} for name in names)',
        'any(name == "." for name in names)',
        ("tests/unit/tools/test_files.py",),
    ),
    Mutant(
        "chain-not-linked",
        "a block of another branch passes for the next one",
        "shared/contracts/chain.py",
        "elif (block.previous, dict(block.after)) != (digest, dict(after)):",
        "elif (block.previous, digest) == (None, None):",
        _CHAIN,
    ),
    Mutant(
        "said-not-checked",
        "what stands beside a sealed line is believed",
        "shared/contracts/chain.py",
        "!= block.root or not all(row.fits for row in rows):",
        "!= block.root:",
        _CHAIN,
    ),
    Mutant(
        "erasure-believed",
        "a row that says that it was erased is believed",
        "shared/contracts/chain.py",
        "return self._gone - self._named",
        "return self._gone & self._named",
        ("tests/integration/gateway/test_audit_chain.py",),
    ),
    Mutant(
        "left-the-group",
        "a yes of somebody who was taken out of the group since still counts at the claim",
        "shared/domain/directory.py",
        "not any(self.is_member(name_of(person), group) for group in groups)",
        "not any(name_of(person) and group for group in groups)",
        _PERMITS,
    ),
    Mutant(
        "relayed-by-nobody",
        "an administrator asks as a visitor with a key that they made, and approves it themselves",
        "services/gateway/conversations/service.py",
        "if not conversation.knows(holders):",
        "if not conversation.knows(holders[:1]):",
        ("tests/integration/gateway/test_keys_for_others.py",),
    ),
    Mutant(
        "token-and-key",
        "one person counts as two: with a conversation's token that somebody else opened, and with a key of their own",
        "shared/domain/votes.py",
        'return bool(own) and (vote.verb != "deny" or "deny" in own)',
        "return False and bool(own)",
        _APPROVAL,
    ),
    Mutant(
        "people-of-then",
        "what somebody asked for runs although a rule denies it by now, because people changed and not the rules",
        "services/approval/rules/approval.py",
        "others = bool(self.directory) and now != then and",
        "others = False and now != then and",
        ("tests/integration/approval/test_rules_of_today.py",),
    ),
    Mutant(
        "own-grant",
        "under four eyes somebody's grant lets through what they asked for with a visitor's token",
        "services/policy/judging.py",
        'if found and "requester" in approval.exclude:',
        'if found and "nobody" in approval.exclude:',
        ("tests/integration/policy/test_grants.py",),
    ),
    Mutant(
        "place-without-its-giver",
        "a yes in somebody's place outlives their being there",
        "services/approval/deciding.py",
        "if found or seated is not each:",
        "if found:",
        ("tests/integration/approval/test_rules_of_today.py",),
    ),
    Mutant(
        "salt-of-any-length",
        "the beginning of what a row says can be moved into its salt",
        "shared/contracts/chain.py",
        'whole = SALT.fullmatch(self.salt) and loads(self.said).keys() == {"actor", "detail"}',
        "whole = self.salt",
        _CHAIN,
    ),
    Mutant(
        "database-believed",
        "a database that writes another text than its rows have passes for the history",
        "services/gateway/audit/queries.sql",
        "salt,\n    pg_catalog.concat(detail) AS detail",
        "salt,\n    CAST(detail AS text) AS detail",
        ("tests/integration/gateway/test_audit_chain.py",),
    ),
    Mutant(
        "job-under-stop",
        "a job that an agent has done begins although such calls are stopped",
        "services/agent/handlers.py",
        "return await store.why_void(work.connection, permitted.call, permit.keys)",
        'return ""',
        ("tests/e2e/test_a_job_as_a_tool.py",),
    ),
    Mutant(
        "staged-never-ran",
        "after a restore a staged call behind the one that ran is said not to have run",
        "services/executor/workspaces.sql",
        "x.call_id = e.call_id AND x.state = 'staged')",
        "x.call_id = e.call_id)",
        ("tests/integration/executor/test_staged_calls.py",),
    ),
)
