"""The rulebook file: read strictly, checked as a whole, and made the value that `rules` judge by.

`entries` says what a file may say, `approval_checks`, `bound_checks`, `rule_checks` and `four_eyes` what it may get
wrong although each of its words is right, within the `scope` of each rule; `check` is the report.
"""

from placet.policy.rulebook.reading import declared, load_rulebook, names_directory, rulebook_from

__all__ = ["declared", "load_rulebook", "names_directory", "rulebook_from"]
