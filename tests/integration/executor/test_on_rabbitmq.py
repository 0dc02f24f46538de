"""The executor as it is deployed: processes of their own on a real broker, killed and told to stop."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from placet.executor.states import State
from tests.support.executor_processes import Processes, has_begun


async def test_a_killed_executor_loses_nothing_and_repeats_nothing(processes: Processes) -> None:
    """Of three calls one hangs when its process is killed: it becomes unknown; the others run once, elsewhere."""
    ledger = processes.place.folder / "ledger"
    hanging = processes.place.call("write_ledger", ledger=str(ledger), hang=True)
    waiting = [processes.place.call("write_ledger", ledger=str(ledger), hang=False) for _ in range(2)]
    killed = await processes.start(executor_slots=1)
    await processes.permit(hanging)
    await has_begun(killed)
    for call in waiting:
        await processes.permit(call)
    killed.kill()
    await killed.wait()
    await processes.start()
    answers = [await processes.answer() for _ in range(3)]
    assert {hanging.call_id: "unknown"} | {call.call_id: "succeeded" for call in waiting} == {
        answer.call_id: answer.kind for answer in answers
    }
    assert 3 == len(ledger.read_text().splitlines())


async def test_an_executor_that_is_told_to_stop_while_it_connects_ends(processes: Processes) -> None:
    """SIGTERM may come while a broker takes the connection and says nothing."""
    came = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.set()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as silent:
        port = silent.sockets[0].getsockname()[1]
        process = await processes.start(rabbitmq_url=f"amqp://guest:guest@127.0.0.1:{port}/")
        async with asyncio.timeout(60):
            await came.wait()
            process.send_signal(signal.SIGTERM)
            assert 0 == await process.wait()


async def test_a_stopped_executor_finishes_what_it_has_and_takes_no_more(processes: Processes) -> None:
    """SIGTERM: the running tool may end, its answer is sent, the process leaves with success; another takes over."""
    fifo = processes.place.folder / "fifo"
    os.mkfifo(fifo)
    call, later = processes.place.call("read_fifo", fifo=str(fifo)), processes.place.call("add", a=1, b=2)
    process = await processes.start()
    await processes.permit(call)
    await has_begun(process)
    process.send_signal(signal.SIGTERM)
    await asyncio.to_thread(fifo.write_text, "go on")
    assert 0 == await process.wait()
    assert State.SUCCEEDED == processes.place.execution(call).state
    answer = await processes.answer()
    assert (call.call_id, "succeeded") == (answer.call_id, answer.kind)
    await processes.permit(later)
    assert processes.place.execution(later) is None
    following = await processes.start()
    assert later.call_id == (await processes.answer()).call_id
    following.send_signal(signal.SIGTERM)
    assert 0 == await following.wait()


@pytest.mark.parametrize("where", ["variable", "file"])
async def test_a_new_secret_of_a_tool_takes_the_place_of_the_old_one(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """What waits for the restart runs with the new one; an executor with the old one is refused by the provider."""
    taken, mounted, kinds = processes.place.folder / "taken", processes.place.folder / "mounted", list[str]()
    named = {"variable": "PROVIDER_KEY", "file": "PROVIDER_KEY_FILE"}[where]

    async def run(secret: str, provider: str) -> None:
        """Permit a call, start an executor that has a secret, and stop it behind the answer."""
        taken.write_text(provider)
        mounted.write_text(f"{secret}\n")
        monkeypatch.setenv(named, str(mounted) if where == "file" else secret)
        call = processes.place.call("use_secret", taken=str(taken))
        await processes.permit(call)
        executor = await processes.start()
        while (answer := await processes.answer()).call_id != call.call_id:
            # What the one before could not confirm any more is said again.
            pass
        kinds.append(answer.kind)
        executor.terminate()
        await executor.wait()

    await run("old", "old")
    await run("new", "old new")
    await run("new", "new")
    await run("old", "new")
    assert ["succeeded", "succeeded", "succeeded", "failed"] == kinds
