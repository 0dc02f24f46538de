"""Run the notifier: `python -m services.notifier`."""

from __future__ import annotations

from services.notifier.service import build
from services.notifier.settings import NotifierSettings
from shared.service import main

if __name__ == "__main__":
    main("notifier", NotifierSettings, build)
