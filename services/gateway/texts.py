"""What comes from outside, as the store can keep it, and times as the API tells them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

from placet.contracts.messages.conversations import LABEL_NAME_MAX, LABEL_TEXT_MAX, LABELS_MAX
from placet.contracts.messages.jobs import JOB_LABELS

M = TypeVar("M", bound=BaseModel)


class Body(BaseModel):
    """What a client sends; a member that is not known here is refused."""

    model_config = ConfigDict(extra="forbid")


def answer_of(model: type[M], thing: object, **more: Any) -> M:
    """Return an answer with `more`, and with what else it names of the attributes of `thing`: nothing but that."""
    named = {name: getattr(thing, name) for name in model.model_fields.keys() - more.keys()}
    return model(**named, **more)


def time_text(at: datetime) -> str:
    """Return a time as the answers of the API have it: ISO 8601 in UTC, with a Z."""
    return at.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def storable_text(text: str) -> str:
    """Return `text`; raise ValueError where PostgreSQL could not keep it."""
    if "\x00" in text:
        raise ValueError("must not have the NUL character")
    return text


def saying_something(text: str) -> str:
    """Return `text`; raise ValueError where there is nothing but blanks in it."""
    if not text.strip():
        raise ValueError("must say something")
    return text


def storable_moment(at: datetime) -> datetime:
    """Return a moment in UTC; raise ValueError where that is before the year 1 or after 9999."""
    try:
        return at.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("must be a moment in the years 1 to 9999 of UTC") from error


#: A moment from outside, with its zone.
Moment = Annotated[AwareDatetime, AfterValidator(storable_moment)]
#: A text from outside.
Text = Annotated[str, AfterValidator(storable_text)]


def _free_label(name: str) -> str:
    if name in JOB_LABELS:
        raise ValueError(f"{name!r} is a label that jobs give to their own conversations")
    return name


#: Name and text of a label.
LabelName = Annotated[Text, Field(min_length=1, max_length=LABEL_NAME_MAX), AfterValidator(_free_label)]
LabelText = Annotated[Text, Field(max_length=LABEL_TEXT_MAX)]
Labels = Annotated[dict[LabelName, LabelText], Field(max_length=LABELS_MAX, description="For rules.")]


def storable_value(value: Any) -> Any:
    """Return a JSON value; raise ValueError where a text or a name in it could not be kept."""
    match value:
        case str():
            storable_text(value)
        case dict():
            for name, each in value.items():
                storable_text(name)
                storable_value(each)
        case list():
            for each in value:
                storable_value(each)
    return value
