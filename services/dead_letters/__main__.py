"""Run the dead-letter service: `python -m placet.dead_letters`."""

from __future__ import annotations

from placet.dead_letters.service import build
from placet.dead_letters.settings import DeadLettersSettings
from placet.runtime.service import main

if __name__ == "__main__":
    main("dead_letters", DeadLettersSettings, build)
