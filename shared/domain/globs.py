"""Globs for texts that may vary in the calls of a grant: `*@example.org` is any name there. Pure."""

from __future__ import annotations

import re
from string import ascii_lowercase
from unicodedata import category, is_normalized

#: What stands between names in lists, addresses, paths and links; a `?` too, but in a glob, where it is a character.
_BETWEEN = r"""\s\x00-\x1f,;:@/\\<>"'`()\[\]{}|#&=%"""
_BETWEEN_NAMES = re.compile(f"[{_BETWEEN}]")
#: A character of one name.
_OF_A_NAME = f"[^{_BETWEEN}?]"
#: Characters of a glob that somebody may ask for instead of a rule's own.
NARROWER_MAX = 500


def fits_glob(text: str, glob: str) -> bool:
    """Tell whether a text fits a glob, in which `*` stands for any number of characters of one name and `?` for one.

    Neither stands for what parts names from each other, so that nothing is put in front of an address or behind it:
    `*@example.org` fits no `eve@evil.example,a@example.org`, and `/docs/*` no `/docs/../secret`. Signs beyond ASCII
    part names too, since some look like those that do (U+2215 like `/`). Nothing, and dots alone, are no name:
    `/docs/*` fits neither `/docs/` nor `/docs/..`.
    """
    first, *others = (
        "".join(_OF_A_NAME if each == "?" else re.escape(each) for each in part) for part in glob.split("*")
    )
    # Nothing is tried twice: what could be in the way of an earlier place is in the way of a later one, too.
    between = "".join(f"(?>{_OF_A_NAME}*?{each})" for each in others[:-1])
    pattern = f"{first}{between}{_OF_A_NAME}*{others[-1]}" if others else first
    if not (text.isprintable() and is_normalized("NFKC", text) and re.fullmatch(pattern, text)):
        return False
    if _foreign_signs(text) != _foreign_signs(glob):
        return False
    # As many as the glob has: no star stands for what parts them.
    names = zip(_BETWEEN_NAMES.split(text), _BETWEEN_NAMES.split(glob), strict=True)
    return all(name == asked or name.strip(".") for name, asked in names)


def is_within(narrow: str, wide: str) -> bool | None:
    """Tell whether every text that fits one glob fits another too; None where that cannot be told.

    A letter that the wide one does not have, in the place of stars and question marks, makes a text that fits the
    narrow one; and where a star of the wide one stands for it, it stands for whatever else is there. A question mark
    stands for the letter too, and not for whatever a star does.
    """
    letter = next((each for each in ascii_lowercase if each not in wide), None)
    if letter is None or len(narrow) > NARROWER_MAX:
        return None
    text = narrow.replace("*", letter).replace("?", letter)
    if not fits_glob(text, wide):
        return False if fits_glob(text, narrow) else None
    return None if "*" in narrow and "?" in wide else True


def _foreign_signs(text: str) -> int:
    """Return how many characters beyond ASCII are no letters, digits or marks of them."""
    return 0 if text.isascii() else sum(not each.isascii() and category(each)[0] not in "LNM" for each in text)
