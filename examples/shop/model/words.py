"""What the demo model says: about itself, about a call it makes, and about what became of one.

A person must be able to trust every sentence: "nothing was done" only where that is certain, and an unknown
outcome is called unknown.

Pure: values in, sentences out.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from shop.model.transcript import Made, Product, products_of

ABOUT = (
    "I am Placet's built-in demo model: a small set of rules, not a language model. I need no key and no"
    " network, and I understand only simple shop talk. Set PLACET_MODEL to use a real model."
)
CAN_DO = (
    'Try: "find red shoes under 500", "show on sale", "in stock only", "add two of them to my cart",'
    ' "add the Runner in size 42", "create a payment link over 299 TRY", "my mail is ada@example.org" or'
    ' "I want to talk to a person". You may also say several of these in one message.'
)
TALK = {
    "about": ABOUT,
    "help": f"{ABOUT} {CAN_DO}",
    "thanks": "You are welcome.",
    "greeting": f"Hello! {ABOUT} {CAN_DO}",
}
NOT_UNDERSTOOD = f"I did not understand that: I am a demo model made of rules. {CAN_DO}"

#: What became of a call that brought no result, by result kind. {what} begins the sentence.
ENDINGS = {
    "failed": "{what} failed{because}.",
    "refused": "{what} is not allowed by the rules here{because}. Nothing was done.",
    "denied": "{what} was denied by a person{because}. Nothing was done.",
    "answered": "{what} was not done, a person answered instead{because}.",
    "expired": "{what} was not done: nobody decided in time{because}.",
    "cancelled": "{what} was cancelled before it ran{because}. Nothing was done.",
    "superseded": "{what} was dropped because you wrote something new{because}. Nothing was done.",
    "invalid": "{what} was not possible, my call was not valid{because}. Nothing was done.",
    "staged": "{what} is prepared but not carried out yet{because}.",
    "unknown": (
        "{what}: it is not known whether this happened{because}. I will not repeat it; a person has to look at it."
    ),
    "pending_confirmation": "{what} waits for a person's approval{because}. It has not been done yet.",
}


def about_to(name: str, arguments: Mapping[str, Any], products: Iterable[Product]) -> str:
    """Name a call, so that a sentence can begin or end with it: "creating a payment link over 299 TRY"."""
    match name:
        case "search_products":
            return f"looking for {_sought(arguments)}"
        case "add_to_cart":
            return f"adding {arguments.get('quantity', 1)} x {_named(arguments, products)} to your cart"
        case "create_pay_link":
            return f"creating a payment link over {arguments.get('amount')} {arguments.get('currency')}"
        case "collect_lead":
            return f"noting your contact details ({', '.join(str(value) for value in arguments.values())})"
        case "escalate_to_human":
            return "handing you over to a person"
        case _:
            return f"calling {name}"


def outcome(made: Made, products: Iterable[Product]) -> str:
    """Say in plain words what became of a call."""
    what = about_to(made.name, made.arguments, products)
    if made.kind == "succeeded":
        return _success(made, what)
    why = (
        str(made.result.get("answer") or made.result.get("reason") or made.result.get("error") or "")
        .strip()
        .rstrip(".")
    )
    ending = ENDINGS.get(made.kind, "{what} ended in a way I do not know{because}.")
    return ending.format(what=_capital(what), because=f" ({why})" if why else "")


def product_line(product: Product) -> str:
    """Describe a product in one line."""
    facts = ["in stock" if product.in_stock else "sold out"]
    if product.on_sale:
        facts.append("on sale")
    if product.variants:
        facts.append("variants: " + ", ".join(label for _, label, _ in product.variants))
    return f"{product.name}, {product.price} {product.currency} ({'; '.join(facts)})"


def money(amount: float) -> int | float:
    """Write a whole amount without its `.0`."""
    return int(amount) if amount == int(amount) else amount


def _success(made: Made, what: str) -> str:
    match made.name:
        case "search_products":
            return _found(made)
        case "add_to_cart":
            return _capital(what.replace("adding", "I added", 1)) + "."
        case "create_pay_link":
            link = made.data.get("url") or made.data.get("link") or json.dumps(made.data)
            return _capital(what.replace("creating a", "here is your", 1)) + f": {link}"
        case "collect_lead":
            return _capital(what.replace("noting", "I noted", 1)) + ". Thank you."
        case "escalate_to_human":
            return "I handed you over to a person, who will answer here."
        case _:
            return f"{made.name} is done: {json.dumps(made.data, ensure_ascii=False)}"


def _found(made: Made) -> str:
    products = products_of(made)
    if not products:
        return f"I found nothing when {about_to(made.name, made.arguments, ())}."
    lines = [f"{place}. {product_line(product)}" for place, product in enumerate(products, start=1)]
    return "\n".join([f"I found {len(products)} when {about_to(made.name, made.arguments, ())}:", *lines])


def _sought(arguments: Mapping[str, Any]) -> str:
    parts = [str(arguments.get("text") or "products")]
    if arguments.get("category"):
        parts.append(f"in {arguments['category']}")
    if arguments.get("max_price") is not None:
        parts.append(f"up to {arguments['max_price']}")
    parts += ["on sale"] if arguments.get("on_sale") else []
    parts += ["in stock"] if arguments.get("in_stock_only") else []
    return " ".join(parts)


def _named(arguments: Mapping[str, Any], products: Iterable[Product]) -> str:
    wanted, variant = arguments.get("product_id"), arguments.get("variant_id")
    for product in products:
        if product.product_id == wanted:
            label = next((label for key, label, _ in product.variants if key == variant), "")
            return f"{product.name} ({label})" if label else product.name
    return str(wanted)


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
