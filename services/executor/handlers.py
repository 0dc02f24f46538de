"""A permit arrives.

Claiming takes the call's row in the handler's own transaction; the tool is started only after its commit, because
what is not recorded as begun would look after a crash as if it had never been begun.
"""

from __future__ import annotations

from services.executor import rules, store
from services.executor.metrics import count_answer
from services.executor.states import Event
from services.executor.worker import Worker
from shared.errors import SecurityAlert
from shared.messages import AbandonCall, ToolCallPermitted
from shared.permit import Permit, verify_permit
from shared.work import Work


async def claim_call(permitted: ToolCallPermitted, work: Work, *, pool: str, worker: Worker) -> None:
    """Claim the permitted call for a first attempt, once, or answer why it will never run."""
    permit = genuine_permit(permitted, pool=pool, worker=worker)
    call, spec = permitted.call, worker.specs.get(permitted.call.tool)
    attempt = store.Attempt(call, permitted.permit, pool, 1, work.now, work.cause)
    idempotent = spec is not None and spec.idempotent
    ours_since = await store.reserve(work, attempt, permit, worker.holder, idempotent=idempotent)
    if ours_since is None:
        raise SecurityAlert(f"replayed permit {permit.jti}: call {call.call_id} was taken before")
    admission = rules.admit(call, permit, spec, now=ours_since)
    await store.admit(work, attempt, permit, admission, worker=worker.holder.worker)
    if admission.event is Event.CLAIMED:
        work.act(lambda: worker.start(attempt))
    else:
        answer = rules.refused(call, admission)
        work.emit(answer)
        work.act(lambda: count_answer(answer, known=spec is not None))


async def abandon_call(message: AbandonCall, work: Work, *, pool: str) -> None:
    """Answer for a call whose permit was given up, unless an executor took it before: then its own answer stands.

    The row taken here also sees to it that a second copy of the permit begins nothing any more.
    """
    answer = rules.abandoned(message)
    if await store.abandon(work, message, pool=pool, error=answer.reason):
        work.emit(answer)


def genuine_permit(permitted: ToolCallPermitted, *, pool: str, worker: Worker) -> Permit:
    """Return the permit of this message; raise SecurityAlert where anything but its issuer could have written it."""
    permit = verify_permit(worker.verifier, permitted.permit, permitted.call, pool=pool)
    if (permitted.tenant, permitted.pool) != (permit.tenant, permit.aud):
        raise SecurityAlert(f"permit {permit.jti} came in the name of another tenant or pool")
    return permit
