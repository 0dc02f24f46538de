"""Judging a call, and everything that is decided with it. Pure: the same call and rulebook always get the same verdict.

`call` is what is judged, `model` what by, `verdicts` the judging; `conditions` and `limits` are what a rule may ask
beside its match. `deciding`, `grants`, `edits` and `watched` say what people may do about a held call, `outcomes` what
follows from a verdict. `explain`, `cases` and `simulate` try a rulebook. Time and files are arguments.
"""

from placet.policy.rules.call import CallFacts
from placet.policy.rules.model import DEFAULTS, OPERATORS, RESERVED_NAMES, Condition, Effect, Rule, Rulebook, Ruling
from placet.policy.rules.verdicts import Step, Verdict, abandoned, error_text, judge, judge_within, walk

__all__ = [
    "DEFAULTS",
    "OPERATORS",
    "RESERVED_NAMES",
    "CallFacts",
    "Condition",
    "Effect",
    "Rule",
    "Rulebook",
    "Ruling",
    "Step",
    "Verdict",
    "abandoned",
    "error_text",
    "judge",
    "judge_within",
    "walk",
]
