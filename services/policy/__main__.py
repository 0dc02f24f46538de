"""Run policy: `python -m services.policy`. An invalid rulebook is printed line by line and ends it with code 2."""

from __future__ import annotations

from services.policy.service import build
from services.policy.settings import PolicySettings
from shared.service import main

if __name__ == "__main__":
    main("policy", PolicySettings, build)
