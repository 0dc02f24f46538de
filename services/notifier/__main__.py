"""Run the notifier: `python -m placet.notifier`."""

from __future__ import annotations

from placet.notifier.service import build
from placet.notifier.settings import NotifierSettings
from placet.runtime.service import main

if __name__ == "__main__":
    main("notifier", NotifierSettings, build)
