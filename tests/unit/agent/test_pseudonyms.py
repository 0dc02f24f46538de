"""Pseudonyms: exact both ways, whatever is written, and however a stream is cut."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from placet.agent.hiding import hidden, in_json, restored, texts
from placet.agent.model_answer import ModelAnswer, ProposedCall
from placet.agent.personal import Personal, fold
from placet.agent.pseudonyms import Entry, Pseudonyms
from placet.agent.transcript import Call, Fact, History, Spoken, Step, UserMessage, transcript

RECOGNISE = Personal(["name", "name.*"], {"customer": "K-[0-9]{3,}"}, "DE").recognise_in(
    {"name": "Ada Lovelace", "name.own": "王小明"}
)

DATA = [
    "ada@example.org",
    "Ada@Example.org",
    "+49 171 1234567",
    "0171 1234567",
    "4111 1111 1111 1111",
    "4111111111111111",
    "DE89 3704 0044 0532 0130 00",
    "Ada Lovelace",
    "ada",
    "K-123",
    "王小明",
    "我是王小明\uff0c你好",
]
BAITS = [
    "person-1@example.invalid",
    "Person 1",
    "Person 2",
    "+99 900 0100000",
    "9990 0010 0000 0000",
    "XX00 0001",
    "customer-1",
    "data-1",
    "1",
    "v2",
    "-",
    "@example.invalid",
]
texts_of_people = st.lists(
    st.one_of(st.sampled_from(DATA), st.sampled_from(BAITS), st.sampled_from(list(' ,.:"\n+_x9')), st.text(max_size=5)),
    max_size=12,
).map("".join)


def a_table(*entries: Entry, avoid: str = "") -> Pseudonyms:
    """Return the table of a conversation with Ada Lovelace."""
    return Pseudonyms(entries, RECOGNISE, avoid=avoid)


@settings(deadline=None)
@given(st.lists(texts_of_people, min_size=1, max_size=4))
def test_what_was_hidden_comes_back_to_the_letter(said: list[str]) -> None:
    """Any texts, one after the other with one table; also with one that was stored and read again."""
    table = a_table(avoid="\n".join(said))
    shown = [table.hide(text) for text in said]
    again = a_table(*table.fresh, avoid="\n".join(said))
    assert said == [table.restore(text) for text in shown] == [again.restore(text) for text in shown]
    assert said == [again.restore(again.hide(text)) for text in said]


@settings(deadline=None)
@given(st.lists(st.sampled_from([*DATA, "and", "1"]), max_size=12).map(", ".join))
def test_a_datum_keeps_its_pseudonym(text: str) -> None:
    """What was stored is used again, and nothing is added for a text that was there before."""
    table = a_table()
    shown = table.hide(text)
    again = a_table(*table.fresh)
    assert (shown, []) == (again.hide(text), again.fresh)


@settings(deadline=None)
@given(texts_of_people, texts_of_people)
def test_a_hidden_text_has_nothing_personal_in_it(before: str, text: str) -> None:
    """What is found in it is no piece of what was written, but a pseudonym."""
    table = a_table()
    table.hide(before)
    shown = table.hide(text)
    made = " ".join(entry.pseudonym for entry in table.fresh)
    found = [shown[each.start : each.end] for each in RECOGNISE(shown)]
    assert [] == [piece for piece in found if piece in text and piece not in made]


@settings(deadline=None)
@given(texts_of_people, texts_of_people, st.lists(st.integers(0, 200)))
def test_a_stream_is_restored_as_the_whole_text_is(before: str, text: str, cuts: list[int]) -> None:
    """However it is cut: also in the middle of a pseudonym."""
    table = a_table()
    shown = f"{table.hide(before)}{table.hide(text)}"
    places = sorted({0, len(shown), *(min(cut, len(shown)) for cut in cuts)})
    restorer = table.restorer()
    pieces = [restorer.add(shown[start:end]) for start, end in pairwise(places)]
    assert table.restore(shown) == "".join([*pieces, restorer.close()])


@settings(deadline=None)
@given(st.lists(texts_of_people, max_size=4))
def test_no_two_spellings_share_a_pseudonym(said: list[str]) -> None:
    """Values and pseudonyms are in pairs."""
    table = a_table()
    for text in said:
        table.hide(text)
    made = table.fresh
    assert len(made) == len({entry.value for entry in made}) == len({entry.pseudonym for entry in made})


def test_pseudonyms_look_like_what_they_stand_for() -> None:
    """A schema's pattern holds for them too, and none of them reaches anybody."""
    said = "ada@example.org, +49 171 1234567, 4111-1111-1111-1111, DE89 3704 0044 0532 0130 00, Ada Lovelace, K-123"
    shown = "person-1@example.invalid, +99 900 0200000, 9990-0030-0000-0000, XX00 0004 0000 0000 0000 00, Person 5"
    assert f"{shown}, customer-6" == a_table().hide(said)


def test_spellings_of_one_datum_are_told_apart_and_recognised_as_one() -> None:
    """The model can tell that it is the same person, and each spelling comes back as it was."""
    table = a_table()
    assert "person-1@example.invalid or person-1v2@example.invalid" == table.hide("ada@example.org or ADA@example.org")
    assert "9990 0020 0000 0000 9990-0020-0000-0000" == table.hide("4111 1111 1111 1111 4111-1111-1111-1111")


def test_a_number_that_the_model_writes_without_spaces_is_the_same_number() -> None:
    """The compact form means the compact datum."""
    table = a_table()
    table.hide("4111 1111 1111 1111 and +49 171 1234567")
    assert "4111111111111111 +491711234567" == table.restore("9990001000000000 +999000200000")


def test_who_writes_a_pseudonym_by_hand_gets_their_own_words_back() -> None:
    """Before it was given to somebody, and after; nobody's datum comes back for it."""
    early, late = a_table(avoid="I am Person 1"), a_table()
    assert "Person 2" == early.hide("Ada")
    assert "Person 1" == early.restore("Person 1")
    assert "Person 1" == late.hide("Ada")
    shown = late.hide("I am Person 1")
    assert ("I am data-2", "I am Person 1") == (shown, late.restore(shown))


def test_a_name_in_a_script_without_spaces_is_hidden_alone() -> None:
    """What stands around it is read by the model, and a stream brings the name back."""
    table = a_table()
    shown = table.hide("我是王小明\uff0c王小明的车")
    assert ("我是Person 1\uff0cPerson 1的车", "我是王小明\uff0c王小明的车") == (shown, table.restore(shown))
    restorer = table.restorer()
    assert "你好王小明吗" == "".join([*(restorer.add(char) for char in "你好Person 1吗"), restorer.close()])


def test_a_longer_number_is_not_a_shorter_one() -> None:
    """`Person 1` is not found in `Person 12` or in `Person 1st`."""
    table = a_table()
    table.hide("Ada")
    assert "Person 12, Person 1st, Ada." == table.restore("Person 12, Person 1st, Person 1.")


def test_json_is_changed_in_its_strings_and_numbers_and_nowhere_else() -> None:
    """Escapes are read, and written where they are needed; repeated keys, spaces and mistakes stay."""
    table = a_table()
    text = '{"a":1, "a" : "Ada\\u0020Lovelace", "card": 4111111111111111, "n": ["\\nada@example.org"], oops'
    shown = in_json(text, table.hide)
    assert '{"a":1, "a" : "Person 1", "card": 9990002000000000, "n": ["\\nperson-3@example.invalid"], oops' == shown
    assert text.replace("\\u0020", " ") == in_json(shown, table.restore)
    quoted = Pseudonyms([Entry('"x"\n', "data-1", "data", "", 1)], lambda _: [])
    assert {"a": 'is "x"\n'} == json.loads(in_json('{"a": "is data-1"}', quoted.restore))


def a_history() -> History:
    """Return a history with something of Ada's everywhere."""
    result = {"data": {"ada@example.org": ["Ada", 4111111111111111]}, "error": "not ada@example.org"}
    return History(
        (UserMessage("t", 1, "I am Ada, ada@example.org", number=1), UserMessage("t2", 1, "and?", number=9)),
        (Step("t", 1, {"content": "Hello Ada", "thinking_blocks": [{"thinking": "Person 1?"}], "origin": "m"}),),
        (
            Call("t", 1, 0, "p", "find", '{"mail":"ada@example.org"}', True, "succeeded", result, call_id="c"),  # noqa: FBT003
            Call("t", 1, 1, "q", "find", '{"mail":"ada@example.org', False, "invalid", {"error": "ada"}, call_id="d"),  # noqa: FBT003
        ),
        (Fact(2, "Lovelace was told"),),
        (Spoken(3, "ada@example.org", "Call +49 171 1234567"),),
    )


def test_everything_that_goes_to_a_model_is_hidden() -> None:
    """Messages, answers, calls, results, facts, what operators said; thoughts are their author's and stay."""
    history = a_history()
    table = Pseudonyms((), RECOGNISE, avoid=texts(history))
    shown = json.dumps(transcript("You are a clerk.", hidden(history, table)), ensure_ascii=False)
    assert [] == [each for each in ("Ada", "ada", "Lovelace", "example.org", "4111", "1234567") if each in shown]
    assert "Person 1?" in shown
    assert "9990" in shown


def test_an_answer_is_restored_before_anybody_checks_it() -> None:
    """Text, arguments and what is stored of it; what only its author reads stays sealed."""
    table = a_table()
    name, mail = table.hide("Ada"), table.hide("ada@example.org")
    call = ProposedCall("c", "find", f'{{"mail": "{mail}"}}')
    written = {"id": "c", "type": "function", "function": {"name": "find", "arguments": call.arguments_text}}
    raw = {"role": "assistant", "content": f"Hi {name}", "tool_calls": [written], "reasoning_content": name}
    answer = restored(ModelAnswer(f"Hi {name}", (call,), "tool_calls", 1, 1, "m", raw), table)
    assert ("Hi Ada", '{"mail": "ada@example.org"}') == (answer.text, answer.calls[0].arguments_text)
    assert ("Hi Ada", name) == (answer.raw["content"], answer.raw["reasoning_content"])
    assert answer.calls[0].arguments_text == answer.raw["tool_calls"][0]["function"]["arguments"]


@settings(deadline=None)
@given(st.text())
def test_folding_keeps_the_place_of_every_character(text: str) -> None:
    """The folded text is as long as the list of places, and these grow."""
    folded, places = fold(text)
    assert len(folded) == len(places)
    assert sorted(set(places)) == places
