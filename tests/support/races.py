"""How long races are: every run in `make test` has many rounds, the nightly one very many.

`PLACET_TEST_RACE_ROUNDS=1000` makes them as long as the promise asks for; each test then gets the time it needs.
"""

from __future__ import annotations

import os

import pytest

#: Rounds of each race.
ROUNDS = int(os.environ.get("PLACET_TEST_RACE_ROUNDS", "100"))
#: For a module of races: a round takes a tenth of a second where nothing else runs, and a busy machine is no failure.
LONG_ENOUGH = pytest.mark.timeout(120 + ROUNDS)
