"""Waiting for answers that come by message: whoever asks hears, also where two ask the same."""

from __future__ import annotations

from contextlib import ExitStack

from placet.gateway.http.awaited import Awaited


async def test_two_who_wait_for_one_answer_both_hear_it() -> None:
    """A decision that is sent twice under one id, as Slack may deliver a click, is answered to both."""
    awaited = Awaited[str](seconds=5)
    with awaited.expected("d") as first, awaited.expected("d") as second:
        awaited.answered("d", "yes")
        assert ("yes", "yes") == (await awaited.answer(first), await awaited.answer(second))
    assert 0 == len(awaited)


async def test_who_stops_waiting_takes_nobody_along() -> None:
    """The other one of two still hears, whichever of them goes."""
    awaited, going = Awaited[str](seconds=5), ExitStack()
    earlier = going.enter_context(awaited.expected("d"))
    with awaited.expected("d") as stays:
        with awaited.expected("d") as later:
            going.close()
        awaited.answered("d", "yes")
        assert (False, False, "yes") == (earlier.done(), later.done(), await awaited.answer(stays))
    assert 0 == len(awaited)


async def test_an_instance_that_stops_lets_everybody_go() -> None:
    """Also two who wait for the same; nobody is told anything."""
    awaited = Awaited[str](seconds=5)
    with awaited.expected("d") as first, awaited.expected("d") as second, awaited.expected("e") as third:
        assert 3 == len(awaited)
        awaited.close()
        assert [None] * 3 == [await awaited.answer(each) for each in (first, second, third)]
